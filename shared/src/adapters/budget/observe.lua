-- Learns from an answer's headers how much of the window others use.
--
-- All our calls that the remainder counts hold a token, so what is used beyond the tokens held is foreign: a lower bound,
-- because tokens are also held by calls that have not been counted. The lowest limit of the last window is in force; it
-- recovers by expiry.
--
-- ARGV[6] maximum  ARGV[7] remaining

local bucket = open_bucket()
local maximum, remaining = tonumber(ARGV[6]), tonumber(ARGV[7])
local foreign = math.max(0, maximum - remaining - held(bucket))
local most = maximum - foreign

local in_force = (bucket.most_until or 0) > bucket.clock and bucket.most or math.huge
if most <= in_force then
  bucket.most, bucket.foreign, bucket.most_until = most, foreign, bucket.clock + window
end
return store(bucket, effective_limit(bucket))
