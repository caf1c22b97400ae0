-- Stops everybody for a time. A longer freeze that is in force stays, with its reason.
--
-- ARGV[6] how long  ARGV[7] reason

local bucket = open_bucket()
local frozen_until = bucket.clock + tonumber(ARGV[6])
if frozen_until > (bucket.frozen_until or 0) then
  bucket.frozen_until = frozen_until
  bucket.frozen_reason = ARGV[7]
end
return store(bucket, frozen_for(bucket))
