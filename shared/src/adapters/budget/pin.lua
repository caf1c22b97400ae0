-- Lowers the limit by an operator's order, or takes the order back.
--
-- ARGV[6] limit, or an empty text for none  ARGV[7] how long

local bucket = open_bucket()
bucket.pin, bucket.pin_until = tonumber(ARGV[6]), nil
if bucket.pin then
  bucket.pin_until = bucket.clock + tonumber(ARGV[7])
end
return store(bucket, effective_limit(bucket))
