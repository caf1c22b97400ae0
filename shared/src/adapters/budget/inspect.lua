-- Shows the bucket and changes nothing.
--
-- ARGV[6] how long a slot of interactive demand is

local bucket = open_bucket()
local now = bucket.clock
local reserved, settled, booked, next_end = 0, 0, 0, 0

for _, entry in ipairs(bucket.entries) do
  if entry.id then
    reserved = reserved + entry.own
    booked = booked + (entry.start > now and entry.left or 0)
  else
    settled = settled + entry.own
  end
  if entry.own > 0 and (next_end == 0 or entry.ends < next_end) then
    next_end = entry.ends
  end
end

local pinned = (bucket.pin_until or 0) > now and bucket.pin or -1
local foreign = (bucket.most_until or 0) > now and bucket.foreign or 0
return {
  0, 0, 0, -- No birth to remember: nothing has been stored.
  effective_limit(bucket), reserved, settled, booked, pinned, foreign,
  frozen_for(bucket), bucket.frozen_reason or '', math.max(0, next_end - now),
  interactive_demand(bucket, tonumber(ARGV[6])),
}
