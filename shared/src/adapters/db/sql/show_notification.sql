-- Everything that is stored about one notification, as a document. $1 its key, $2 values too.
select jsonb_build_object(
    'notification', encode(n.notification_key, 'hex'), 'delivery_id', n.delivery_id, 'position', n.position,
    'received_at', n.received_at, 'secret', d.secret, 'signature_version', d.signature_version,
    'portal_id', n.portal_id, 'app_id', n.app_id, 'type', n.subscription_type, 'object_type', n.object_type,
    'object_id', n.object_id, 'property', n.property_name, 'occurred_at', n.occurred_at, 'event_id', n.event_id,
    'change_source', n.change_source, 'state', n.state, 'reason', n.reason, 'changed', n.changed, 'settled_at', n.settled_at,
    'effects', coalesce((
        select jsonb_agg(jsonb_build_object('event_id', o.event_id, 'kind', o.kind, 'rule', o.payload ->> 'rule', 'status', o.status,
                                            'code', o.last_error_code, 'created_at', o.created_at) order by o.created_at, o.event_id)
        from hubferry.outbox_events o
        where o.payload ->> 'notification' = encode(n.notification_key, 'hex') and o.lane = 'effects'), '[]'))
    || case when $2::boolean then jsonb_build_object('value_before', n.value_before, 'value', n.property_value, 'details', n.details,
                                                     'raw', n.raw) else '{}' end
    as document
from hubferry.webhook_events n
join hubferry.webhook_deliveries d using (delivery_id)
where n.notification_key = $1
