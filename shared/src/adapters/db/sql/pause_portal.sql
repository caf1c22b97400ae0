-- Pauses a portal; a longer pause that is already there stays. $1 portal id, $2 for how long in ms, $3 reason.
update hubferry.portals
set paused_until = clock_timestamp() + $2::bigint * interval '1 ms', paused_reason = $3, updated_at = clock_timestamp()
where portal_id = $1 and (paused_until is null or paused_until < clock_timestamp() + $2::bigint * interval '1 ms')
