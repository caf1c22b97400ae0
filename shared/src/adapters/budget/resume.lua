-- Ends a freeze. Tokens stay held: what has been called has been called.

local bucket = open_bucket()
bucket.frozen_until, bucket.frozen_reason = nil, nil
return store(bucket)
