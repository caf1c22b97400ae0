-- Forgets reservations, freeze, pin and foreign use, also when the value cannot be read any more.
--
-- The whole limit is held back for one window, so that even this never causes more calls than allowed.

local readable, known = pcall(open_bucket)
if not readable then
  redis.call('DEL', KEYS[1])
  known = open_bucket()
end

local bucket = { born = known.born, clock = known.clock, recovered = known.recovered, entries = {} }
hold(bucket, limit, bucket.clock + window)
return store(bucket)
