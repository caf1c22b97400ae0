-- Stamps finished calls: each holds its token until one window after it finished, and no longer.
--
-- Tokens of the reservation that another one has taken over need no stamp: they are held by that one until this
-- reservation would have ended, which is later. Calls that no reservation covers are held too, over the limit if need
-- be, because they have happened.
--
-- ARGV[6] reservation  ARGV[7] settlement  ARGV[8] what becomes of the rest: 'keep' or 'release'
-- ARGV[9..] age of each finished call

local bucket = open_bucket()
local now = bucket.clock
local entry = find(bucket, ARGV[6])
local uncovered = 0

local function settle_reserved(ends)
  entry.left = entry.left - 1
  ends = math.max(ends, entry.start)
  if entry.own > 0 then
    entry.own = entry.own - 1
    hold(bucket, 1, ends)
  elseif ends > entry.ends then
    hold(bucket, 1, ends) -- It overran its deadline: who took the token over does not wait for it.
  end
end

local function settle_all()
  for i = 9, #ARGV do
    local ends = now - tonumber(ARGV[i]) + window
    if entry and entry.left > 0 then
      settle_reserved(ends)
    else
      uncovered = uncovered + 1
      hold(bucket, 1, ends)
    end
  end
end

-- The same settlement again: its first answer was lost with the connection.
if not entry or entry.last ~= ARGV[7] then
  settle_all()
end

local left = 0
if entry then
  entry.last = ARGV[7]
  if entry.left == 0 or ARGV[8] == 'release' then
    give_back(bucket, entry)
  end
  left = entry.left
end
return store(bucket, entry and 'reserved' or 'unknown', uncovered, left, frozen_for(bucket))
