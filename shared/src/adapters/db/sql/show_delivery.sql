-- Everything that is stored about one delivery, as a document. $1 delivery, $2 values too, $3 most notifications.
select jsonb_build_object(
    'delivery_id', d.delivery_id, 'received_at', d.received_at, 'app_id', d.app_id, 'secret', d.secret,
    'signature_version', d.signature_version, 'body_bytes', d.body_bytes, 'body_kept', d.body is not null,
    'notifications', d.notifications, 'fresh', d.fresh, 'unreadable', d.unreadable,
    'events', coalesce((
        select jsonb_agg(jsonb_build_object('event_id', o.event_id, 'portal_id', o.portal_id, 'status', o.status,
                                            'code', o.last_error_code, 'created_at', o.created_at, 'finished_at', o.finished_at)
                         order by o.created_at, o.event_id)
        from hubferry.outbox_events o where o.payload ->> 'delivery_id' = d.delivery_id::text and o.lane = 'inbound'), '[]'),
    'new_notifications', coalesce((
        select jsonb_agg(jsonb_build_object('notification', encode(n.notification_key, 'hex'), 'type', n.subscription_type,
                                            'object', concat_ws(' ', n.object_type, n.object_id), 'property', n.property_name,
                                            'state', n.state, 'reason', n.reason)
                         || case when $2::boolean then jsonb_build_object('value', n.property_value, 'raw', n.raw) else '{}' end
                         order by n.position)
        from (select * from hubferry.webhook_events e where e.delivery_id = d.delivery_id order by e.position limit $3) as n), '[]'))
    as document
from hubferry.webhook_deliveries d
where d.delivery_id = $1
