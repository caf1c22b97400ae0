-- Remembers what was written. $1 portal, $2 object type, $3 records, $4 properties, $5 hashes, one array a column, all of one
-- length.
insert into hubferry.written_values as w (portal_id, object_type, object_id, property, value_hash)
select distinct $1::bigint, $2::text, g.object_id, g.property, g.value_hash
from unnest($3::bigint[], $4::text[], $5::bytea[]) as g (object_id, property, value_hash)
-- Everybody who notes the same meets it in this order.
order by g.object_id, g.property, g.value_hash
on conflict (portal_id, object_type, object_id, property, value_hash) do update set written_at = excluded.written_at
