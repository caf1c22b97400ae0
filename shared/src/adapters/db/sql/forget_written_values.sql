-- Deletes what was written longer ago than $1 ms, the oldest first and at most $2 rows.
delete from hubferry.written_values w
where (w.portal_id, w.object_type, w.object_id, w.property, w.value_hash) in (
    select o.portal_id, o.object_type, o.object_id, o.property, o.value_hash from hubferry.written_values o
    where o.written_at < clock_timestamp() - $1::bigint * interval '1 ms'
    order by o.written_at
    limit $2
    for update skip locked)
