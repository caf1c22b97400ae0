-- Puts notifications that can be read by now in the place of those that could not. $1 an array of objects: `replaces` and
-- `notification_key` in hexadecimal digits, the rest by column.
with
given as (
    select decode(g.replaces, 'hex') as replaces, decode(g.notification_key, 'hex') as notification_key, g.portal_id, g.app_id,
           g.subscription_type, g.object_type, g.object_id, g.property_name, g.property_value, g.occurred_at, g.event_id,
           g.change_source, g.details
    from jsonb_to_recordset($1) as g (
        replaces text, notification_key text, portal_id bigint, app_id bigint, subscription_type text, object_type text, object_id bigint,
        property_name text, property_value text, occurred_at timestamptz, event_id text, change_source text, details jsonb)
),
old as (
    delete from hubferry.webhook_events e using given g where e.notification_key = g.replaces and e.state = 'quarantined'
    returning e.notification_key, e.delivery_id, e.position, e.received_at
)
insert into hubferry.webhook_events (notification_key, delivery_id, position, received_at, portal_id, app_id, subscription_type,
                                     object_type, object_id, property_name, property_value, occurred_at, event_id, change_source,
                                     details, state, reason)
select g.notification_key, o.delivery_id, o.position, o.received_at, g.portal_id, g.app_id, g.subscription_type,
       g.object_type, g.object_id, g.property_name, g.property_value, g.occurred_at, g.event_id, g.change_source,
       g.details, 'quarantined', 'read_again'
from given g join old o on o.notification_key = g.replaces
order by g.notification_key
on conflict (notification_key) do nothing
