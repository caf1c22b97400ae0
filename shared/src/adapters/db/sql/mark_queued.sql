-- Marks published events as queued. A worker may have claimed one already: then its row is left to the worker.
-- $1 lease token, $2 event ids, $3 SQS message ids in the same order.
with
-- In the order of the id, as a claim locks them.
mine as (
    select e.event_id, sent.message_id
    from hubferry.outbox_events e
    join unnest($2::uuid[], $3::text[]) as sent (event_id, message_id) using (event_id)
    where e.status = 'publishing' and e.lease_token = $1
    order by e.event_id
    for update of e
)
update hubferry.outbox_events e
set status = 'queued', queued_at = clock_timestamp(), sqs_message_id = mine.message_id,
    lease_token = null, lease_expires_at = null
from mine
where e.event_id = mine.event_id
