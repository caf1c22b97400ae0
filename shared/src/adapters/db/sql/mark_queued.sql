-- Marks published events as queued. A worker may have claimed one already: then its row is left to the worker.
-- $1 lease token, $2 event ids, $3 SQS message ids in the same order.
update hubferry.outbox_events e
set status = 'queued', queued_at = clock_timestamp(), sqs_message_id = sent.message_id,
    lease_token = null, lease_expires_at = null
from unnest($2::uuid[], $3::text[]) as sent (event_id, message_id)
where e.event_id = sent.event_id and e.status = 'publishing' and e.lease_token = $1
