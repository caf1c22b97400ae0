-- Gives back the calls of a reservation that have been neither settled nor released.
--
-- ARGV[6] reservation

local bucket = open_bucket()
local entry = find(bucket, ARGV[6])
if not entry then
  return store(bucket, 'unknown', 0)
end

local calls = entry.left
give_back(bucket, entry)
return store(bucket, 'returned', calls)
