-- Values are measured as HubSpot measures them, so that what is accepted can be written.

-- Length of a text in UTF-16 units: a character beyond the basic plane, such as most emoji, counts twice. Only a text that could
-- be too long is looked at character by character.
create function hubferry.value_length(value text) returns integer language sql immutable parallel safe as $$
    select case when length(value) > 32768 then length(value) + length(regexp_replace(value, '[^\U00010000-\U0010FFFF]+', '', 'g'))
                else length(value) end
$$;

-- As before, but for the length of values.
-- The first thing wrong with the form of a request, or null. What it names depends on nothing but the request.
create or replace function hubferry.fault_of(request jsonb) returns hubferry.fault language plpgsql stable parallel safe as $$
declare
    contact jsonb := request -> 'contact';
    consent jsonb := request -> 'consent';
    given_at timestamptz;
    name text;
    value jsonb;
begin
    if jsonb_typeof(request) is distinct from 'object' then
        return ('invalid_request', '', 'must be an object')::hubferry.fault;
    end if;
    select key into name from jsonb_object_keys(request - '{idempotency_key,brand,product,contact,desired_state,consent,lane}'::text[]) as key limit 1;
    if found then
        return ('unknown_field', left(name, 100), 'is not a field of a subscription request')::hubferry.fault;
    end if;

    foreach name in array '{idempotency_key,brand,product,desired_state}'::text[] loop
        if jsonb_typeof(request -> name) is distinct from 'string' then
            return ('invalid_field', name, 'is required and must be a string')::hubferry.fault;
        end if;
    end loop;
    if request ->> 'idempotency_key' !~ '^[!-~]{1,255}$' then
        return ('invalid_idempotency_key', 'idempotency_key', 'must be 1 to 255 visible ASCII characters')::hubferry.fault;
    end if;
    if request ->> 'desired_state' not in ('subscribed', 'unsubscribed') then
        return ('invalid_desired_state', 'desired_state', 'must be "subscribed" or "unsubscribed"')::hubferry.fault;
    end if;
    if jsonb_typeof(coalesce(request -> 'lane', '"bulk"')) <> 'string' or request ->> 'lane' not in ('interactive', 'bulk') then
        return ('invalid_lane', 'lane', 'must be "interactive" or "bulk"')::hubferry.fault;
    end if;

    if jsonb_typeof(contact) is distinct from 'object' then
        return ('invalid_field', 'contact', 'is required and must be an object')::hubferry.fault;
    end if;
    select key into name from jsonb_object_keys(contact - '{key,email,properties}'::text[]) as key limit 1;
    if found then
        return ('unknown_field', 'contact.' || left(name, 100), 'is not a field of a contact')::hubferry.fault;
    end if;
    if jsonb_typeof(contact -> 'email') is distinct from 'string' then
        return ('invalid_email', 'contact.email', 'is required and must be a string')::hubferry.fault;
    end if;
    if hubferry.canonical_email(contact ->> 'email') is null then
        return ('invalid_email', 'contact.email',
                'must be one address of at most 254 characters such as ada@example.test; an international domain in its ASCII form (xn--)')::hubferry.fault;
    end if;
    if coalesce(jsonb_typeof(contact -> 'key'), 'null') not in ('string', 'null') or contact ->> 'key' !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$' then
        return ('invalid_contact_key', 'contact.key',
                'must be 1 to 100 of A-Z a-z 0-9 . _ : / - and begin with a letter or digit; it appears in logs, so no address')::hubferry.fault;
    end if;
    if coalesce(jsonb_typeof(contact -> 'properties'), 'null') not in ('object', 'null') then
        return ('invalid_properties', 'contact.properties', 'must be an object')::hubferry.fault;
    end if;
    if jsonb_typeof(contact -> 'properties') = 'object' then
        for name, value in select p.key, p.value from jsonb_each(contact -> 'properties') as p loop
            if name !~ '^[A-Za-z][A-Za-z0-9_]{0,99}$' then
                return ('invalid_properties', 'contact.properties', 'has a name that is not 1 to 100 letters, digits and underscores')::hubferry.fault;
            end if;
            if jsonb_typeof(value) in ('object', 'array') then
                return ('invalid_properties', 'contact.properties.' || name, 'must be a string, a number, a boolean or null')::hubferry.fault;
            end if;
            if hubferry.value_length(value #>> '{}') > 65536 then
                return ('invalid_properties', 'contact.properties.' || name, 'is longer than 65536 characters')::hubferry.fault;
            end if;
        end loop;
    end if;

    if coalesce(jsonb_typeof(consent), 'null') = 'null' then
        if request ->> 'desired_state' = 'subscribed' then
            return ('invalid_consent', 'consent', 'is required to subscribe: {"legal_basis", "explanation"}')::hubferry.fault;
        end if;
        return null;
    end if;
    if jsonb_typeof(consent) <> 'object' then
        return ('invalid_consent', 'consent', 'must be an object')::hubferry.fault;
    end if;
    select key into name from jsonb_object_keys(consent - '{legal_basis,explanation,given_at}'::text[]) as key limit 1;
    if found then
        return ('unknown_field', 'consent.' || left(name, 100), 'is not a field of a consent')::hubferry.fault;
    end if;
    if jsonb_typeof(consent -> 'legal_basis') is distinct from 'string' or consent ->> 'legal_basis' not in
        ('CONSENT_WITH_NOTICE', 'LEGITIMATE_INTEREST_CLIENT', 'LEGITIMATE_INTEREST_OTHER', 'LEGITIMATE_INTEREST_PQL',
         'NON_GDPR', 'PERFORMANCE_OF_CONTRACT', 'PROCESS_AND_STORE') then
        return ('invalid_consent', 'consent.legal_basis',
                'must be CONSENT_WITH_NOTICE, LEGITIMATE_INTEREST_CLIENT, LEGITIMATE_INTEREST_OTHER, LEGITIMATE_INTEREST_PQL, NON_GDPR, PERFORMANCE_OF_CONTRACT or PROCESS_AND_STORE')::hubferry.fault;
    end if;
    if jsonb_typeof(consent -> 'explanation') is distinct from 'string' or length(btrim(consent ->> 'explanation')) not between 1 and 1000 then
        return ('invalid_consent', 'consent.explanation', 'is required and must be 1 to 1000 characters that say how consent was given')::hubferry.fault;
    end if;
    if coalesce(jsonb_typeof(consent -> 'given_at'), 'null') <> 'null' then
        given_at := case when jsonb_typeof(consent -> 'given_at') = 'string' then hubferry.instant(consent ->> 'given_at') end;
        if given_at is null or given_at < '2005-01-01Z' or given_at > clock_timestamp() + interval '5 minutes' then
            return ('invalid_consent', 'consent.given_at', 'must be an RFC 3339 instant such as 2026-05-04T09:30:00Z, not before 2005 and not in the future')::hubferry.fault;
        end if;
    end if;
    return null;
end $$;
