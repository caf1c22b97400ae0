-- Grants all the calls or none, now or from a moment that is already known.
--
-- When they do not fit now, the tokens that end first are taken over: they belong to this reservation at once, and its
-- first call may start when the last of them would have ended. In between they are never free, so the number of tokens
-- held stays within the limit; and nobody else can take the slot, so the caller sleeps once and nobody polls.
-- The tokens of a reservation end when its calls may end at the latest. Its holder settles all the same: what it has lent
-- stays held by the borrower for longer than the settled calls need.
--
-- ARGV[6] reservation  ARGV[7] calls  ARGV[8] lane  ARGV[9] how long the calls may take  ARGV[10] longest wait
-- ARGV[11], ARGV[12] most and least reserve for interactive work  ARGV[13] how long a slot of its demand is
-- ARGV[14] the reserve for each call that interactive work asked for lately

local id, calls, lane = ARGV[6], tonumber(ARGV[7]), ARGV[8]
local duration, longest_wait = tonumber(ARGV[9]), tonumber(ARGV[10])
local most_reserve, least_reserve = tonumber(ARGV[11]), tonumber(ARGV[12])
local slot_length, reserve_per_call = tonumber(ARGV[13]), tonumber(ARGV[14])

-- A request larger than the share needs an empty bucket, instead of being impossible.
local function share_of_lane(bucket, most)
  if lane == 'interactive' then
    return most
  end
  local wanted = reserve_per_call * interactive_demand(bucket, slot_length)
  local reserve = math.min(most_reserve, math.max(least_reserve, wanted))
  return math.max(calls, most - reserve)
end

local function certain_end(entry)
  return entry.ends
end

-- Sorts the entries by their end, and answers the moment at which `tokens` of those held will have ended.
local function moment_when_ended(bucket, tokens, end_of)
  table.sort(bucket.entries, function(a, b) return end_of(a) < end_of(b) end)
  local moment = bucket.clock
  for _, entry in ipairs(bucket.entries) do
    if tokens <= 0 then
      break
    end
    tokens = tokens - entry.own
    moment = end_of(entry)
  end
  return moment
end

-- Expects the entries sorted by their certain end. Takes tokens that end by `moment`, the latest of them first: those that
-- end earlier are worth more to the others.
local function take_over(bucket, tokens, moment)
  for i = #bucket.entries, 1, -1 do
    local entry = bucket.entries[i]
    if entry.ends <= moment then
      local taken = math.min(tokens, entry.own)
      entry.own = entry.own - taken
      tokens = tokens - taken
    end
  end
end

local bucket = open_bucket()

-- The same request again: its first answer was lost with the connection.
local granted = find(bucket, id)
if granted then
  return store(bucket, 'granted', math.max(0, granted.start - bucket.clock), '')
end

if lane == 'interactive' then
  note_interactive(bucket, calls, slot_length)
end

local most = effective_limit(bucket)
if calls > most then
  return store(bucket, 'impossible', most, '')
end

if frozen_for(bucket) > 0 then
  return store(bucket, 'frozen', frozen_for(bucket), bucket.frozen_reason)
end

local start = bucket.clock
local missing = held(bucket) + calls - share_of_lane(bucket, most)
if missing > 0 then
  -- Calls under way may take all their time, but hardly ever do: hoping, they end now.
  local hoped = moment_when_ended(bucket, missing, function(entry)
    return entry.id and math.min(entry.ends, math.max(entry.start, bucket.clock) + window) or entry.ends
  end)
  start = moment_when_ended(bucket, missing, certain_end)
  -- Behind calls that may take much longer than they will, a booked slot would stand idle for more than a window:
  -- then asking again costs less.
  if start - bucket.clock > longest_wait or start - hoped > window then
    return store(bucket, 'full', hoped - bucket.clock, '')
  end
  take_over(bucket, math.min(missing, calls), start)
end

table.insert(bucket.entries, {
  id = id, own = calls, left = calls, start = start, ends = start + duration + window,
})
return store(bucket, 'granted', start - bucket.clock, '')
