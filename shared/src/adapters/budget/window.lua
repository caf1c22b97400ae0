-- The head of every script: how a bucket is opened, counted and stored.
--
-- A bucket is ONE value, so that eviction, expiry and failover take all of it or nothing, and a count can never
-- disagree with what it counts. It holds some hundred entries at most: an entry holds at least one token, or has lent
-- its tokens out and ends by itself.
--
--   born            when this value came to be; another birth tells a caller that Redis lost what it knew
--   clock           latest time seen, so that a server clock that steps back gives nothing away twice
--   entries         own    tokens held here
--                   ends   when they become free by themselves
--                   id, left, start, last   only of a reservation: identity, calls not yet settled, when the first
--                          may start, and the settlement seen last
--                   lost   only of what is held back after a loss
--   frozen_until, frozen_reason, pin, pin_until, most, foreign, most_until, recovered
--   asked_slot, asked, asked_before   what interactive work asked for in a slot of time and in the one before
--
-- KEYS[1] the bucket    ARGV[1] configured limit    ARGV[2] window
-- ARGV[3], ARGV[4], ARGV[5] birth, clock and last end of the bucket as the caller saw them last, or 0
-- All times are whole microseconds: a double holds them exactly, and no fraction of a token is ever rounded away.

local KEEP = 120000000 -- A bucket outlives its last use by this much; one that is gone earlier has been lost.
local GRAIN = 1000     -- Settled calls that end in the same millisecond share an entry; rounded up, the safe way.

local limit = tonumber(ARGV[1])
local window = tonumber(ARGV[2])
local known_birth, known_clock, known_end = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local function held(bucket)
  local tokens = 0
  for _, entry in ipairs(bucket.entries) do
    tokens = tokens + entry.own
  end
  return tokens
end

-- Holds tokens until `ends`. Adding never asks for the limit: it records what has happened.
local function hold(bucket, tokens, ends)
  if tokens <= 0 or ends <= bucket.clock then
    return
  end
  ends = math.ceil(ends / GRAIN) * GRAIN
  for _, entry in ipairs(bucket.entries) do
    if entry.ends == ends and not entry.id and not entry.lost then
      entry.own = entry.own + tokens
      return
    end
  end
  table.insert(bucket.entries, { own = tokens, ends = ends })
end

-- Reservations end at their deadline plus one window: so a crashed holder's tokens come back without anybody's help.
-- One that has lent all its tokens stays until then, because its holder will still settle.
local function drop_ended(bucket)
  local live = {}
  for _, entry in ipairs(bucket.entries) do
    if entry.ends > bucket.clock and (entry.own > 0 or entry.id) then
      table.insert(live, entry)
    end
  end
  bucket.entries = live
end

-- The caller worked with a bucket that is no more: a flush, a restart, an empty replica. What was called in the last
-- window is unknown, so the whole limit is held back until that window has passed and until everything has ended that
-- the caller knew to be under way. The next one to notice may know of something that takes longer.
local function recover(bucket)
  local other = known_birth ~= 0 and known_birth ~= bucket.born
  if not other or bucket.clock - known_clock >= KEEP then
    return
  end
  if not bucket.recovered then
    bucket.recovered = true
    local ends = math.max(bucket.clock + window, known_end)
    table.insert(bucket.entries, { own = limit - held(bucket), ends = ends, lost = true })
  end
  for _, entry in ipairs(bucket.entries) do
    if entry.lost then
      entry.ends = math.max(entry.ends, known_end)
    end
  end
end

local function open_bucket()
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local packed = redis.call('GET', KEYS[1])
  local bucket = packed and cmsgpack.unpack(packed) or { born = now, clock = now, entries = {} }
  bucket.clock = math.max(bucket.clock, now)
  drop_ended(bucket)
  recover(bucket)
  return bucket
end

local function find(bucket, id)
  for _, entry in ipairs(bucket.entries) do
    if entry.id == id then
      return entry
    end
  end
end

-- Ends a reservation. Before its start a booked one holds tokens of calls that others have made; those stay held until
-- they would have ended without it.
local function give_back(bucket, entry)
  local own = entry.own
  entry.id, entry.own, entry.left = nil, 0, 0
  hold(bucket, own, entry.start)
end

local function frozen_for(bucket)
  return math.max(0, (bucket.frozen_until or 0) - bucket.clock)
end

-- A pin and foreign use lower the limit while they last. Nothing raises it, and at least one call stays possible, or
-- nothing would ever find out that the foreign use has ended.
local function effective_limit(bucket)
  local most = limit
  if (bucket.pin_until or 0) > bucket.clock then
    most = math.min(most, bucket.pin)
  end
  if (bucket.most_until or 0) > bucket.clock then
    most = math.min(most, bucket.most)
  end
  return math.max(most, math.min(1, limit))
end

-- Calls that interactive work asked for: in this slot of time or in the one before, whichever is more.
local function interactive_demand(bucket, slot_length)
  local slot = math.floor(bucket.clock / slot_length)
  if bucket.asked_slot == slot then
    return math.max(bucket.asked, bucket.asked_before)
  end
  return bucket.asked_slot == slot - 1 and bucket.asked or 0
end

local function note_interactive(bucket, calls, slot_length)
  local slot = math.floor(bucket.clock / slot_length)
  if bucket.asked_slot ~= slot then
    bucket.asked_before = bucket.asked_slot == slot - 1 and bucket.asked or 0
    bucket.asked, bucket.asked_slot = 0, slot
  end
  bucket.asked = bucket.asked + calls
end

local function last_end(bucket)
  local last = bucket.clock
  for _, entry in ipairs(bucket.entries) do
    last = math.max(last, entry.ends)
  end
  return last
end

-- Stores the bucket with an expiry past everything in it, and answers with its birth, clock and last end first.
local function store(bucket, ...)
  drop_ended(bucket)
  local last = last_end(bucket)
  local needed = math.max(last, bucket.frozen_until or 0, bucket.pin_until or 0, bucket.most_until or 0)
  local expiry = math.ceil((needed - bucket.clock + KEEP) / 1000)
  redis.call('SET', KEYS[1], cmsgpack.pack(bucket), 'PX', string.format('%.0f', expiry))
  return { bucket.born, bucket.clock, last, ... }
end
