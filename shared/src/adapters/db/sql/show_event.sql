-- Everything that is stored about one event, as a document. $1 id of an event or of a request, $2 personal data too, $3 most newer events.
with
asked as (
    select e.event_id, null::uuid as request_id from hubferry.outbox_events e where e.event_id = $1
    union all
    select r.event_id, r.request_id from hubferry.subscription_requests r where r.request_id = $1
)
select jsonb_build_object(
    'event_id', e.event_id, 'request_id', a.request_id, 'kind', e.kind, 'portal_id', e.portal_id, 'brand', e.brand, 'product', s.product,
    'contact_key', coalesce(s.contact_key, e.contact_key), 'lane', e.lane, 'status', e.status, 'code', e.last_error_code, 'summary', e.last_error_summary,
    'publish_attempts', e.publish_attempts, 'process_attempts', e.process_attempts,
    'accepted_at', e.created_at, 'due_at', case when e.status in ('pending', 'retry') then e.next_attempt_at end,
    'queued_at', e.queued_at, 'lease_expires_at', e.lease_expires_at, 'finished_at', e.finished_at,
    'sqs_message_id', e.sqs_message_id, 'traceparent', e.traceparent,
    'replays', e.replays, 'replayed_at', e.replayed_at,
    'replayed_as', (
        select jsonb_build_object('event_id', r.event_id, 'status', r.status, 'code', r.last_error_code, 'replayed_at', r.replayed_at)
        from hubferry.outbox_events r where r.replays = e.event_id),
    'decision', jsonb_build_object(
        'desired_state', e.payload -> 'desired_state', 'mapping_version', e.payload #> '{mapping,version}',
        'legal_basis', e.payload #> '{consent,legal_basis}', 'consent_given_at', e.payload #> '{consent,given_at}'),
    'stream', case when s.stream_id is not null then jsonb_build_object(
        'sequence', e.sequence, 'last_sequence', s.last_sequence, 'applied_sequence', d.applied_sequence,
        'applied_state', d.applied_state, 'applied_at', d.applied_at,
        'newer_events', coalesce((
            select jsonb_agg(jsonb_build_object(
                'event_id', n.event_id, 'sequence', n.sequence, 'status', n.status, 'desired_state', n.payload -> 'desired_state',
                'accepted_at', n.created_at) order by n.sequence)
            from (
                select * from hubferry.outbox_events o
                where o.stream_id = e.stream_id and o.sequence > e.sequence order by o.sequence limit $3::bigint
            ) as n), '[]')) end,
    'operations', coalesce((
        select jsonb_agg(jsonb_build_object(
            'operation', r.operation_key, 'status', r.status, 'attempts', r.attempts, 'record_id', r.record_id,
            'correlation_id', r.correlation_id, 'started_at', r.started_at, 'finished_at', r.finished_at, 'remote_at', r.remote_at)
            order by r.operation_key)
        from hubferry.operation_receipts r where r.event_id = e.event_id), '[]'))
    || case when $2::boolean then jsonb_build_object('personal', jsonb_build_object(
        'email', c.email, 'properties', c.properties, 'consent_explanation', e.payload #> '{consent,explanation}')) else '{}' end
    as document
from asked a
join hubferry.outbox_events e using (event_id)
left join hubferry.subscription_streams s on s.stream_id = e.stream_id
left join hubferry.contacts c on c.contact_key = s.contact_key
left join hubferry.applied_states d on d.stream_id = e.stream_id
limit 1
