-- Tells a holder that has waited whether its calls may still start.
--
-- ARGV[6] reservation

local bucket = open_bucket()
local entry = find(bucket, ARGV[6])

-- Past its deadline a reservation only protects calls that have been made.
if not entry or bucket.clock >= entry.ends - window then
  return store(bucket, 'gone', 0)
end
if frozen_for(bucket) > 0 then
  return store(bucket, 'frozen', frozen_for(bucket))
end
return store(bucket, 'confirmed', 0)
