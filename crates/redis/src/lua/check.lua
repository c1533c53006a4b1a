-- Answers a batch of asks, one after another, each as if it had come by itself.
--
-- KEYS   the keys of all asks in order, one per limit, all in one slot
-- ARGV   [1]   now in µs for replays and tests; empty, as in production, for Redis' own clock
--        [2…]  per ask "op mode cost limit …": op take, peek, refund, reset, release:id, reserve,
--              cancel:ticks:frac:scale:tick, lease:least (the cost is the most that is wanted),
--              give:granted_at:age (the units of a lease), or each, look and left as each.lua says; mode all or any;
--              cost a whole number, or inf above 2^53; limits as their files say
-- Reply  now, then per ask: the binding limit's index if there are several; remaining, retry, reset; permits; for a
--        lease the units, the µs after which it ends at the latest (-1: none), and 1 if units can come back; for each,
--        look and left the numbers of every limit. Or, in place of all these, one text: EDGES, or an error of this ask
--        alone.
-- Twin   core/src/combine.rs and lease/store.rs, and MemoryStore::decide in store/memory.rs
--
-- Redis does not roll back, so an ask is read and decided as a whole before it writes. What would stop a write
-- (no memory, a replica, a full disk) stops the first one, and so all.

local function optional(text)
  return text ~= '' and integer(text) or nil
end

local function read_limit(name, a, b, c, d, e, f)
  local algorithm = algorithms[name] or define(name)
  return algorithm.read(integer(a), integer(b), optional(c), optional(d), optional(e), optional(f))
end

local LIMIT = '(%l+),(%d+),(%d+),?(%d*),?(%d*),?(%d*),?(%d*)'

local function read_ask(text)
  local op, args, mode, cost, limits = string.match(text, '^(%l+)(%S*) (%l+) (%w+) (.+)$')
  if not op then error('ERR tidegate: malformed ask', 0) end
  local ask = {
    read_limit(string.match(limits, '^' .. LIMIT)),
    op = op, args = args, any = mode == 'any', cost = cost == 'inf' and math.huge or integer(cost),
  }
  if string.find(limits, ' ', 1, true) then
    local count = 0
    for name, a, b, c, d, e, f in gmatch(limits, LIMIT) do
      count = count + 1
      ask[count] = read_limit(name, a, b, c, d, e, f)
    end
  end
  return ask
end

local function decide(ask, key, cost, writes)
  if not ask[2] then return decide_one(ask[1], KEYS[key], cost, writes) end
  return (algorithms.many or define('many'))(ask, key, cost, writes)
end

local function answer(ask, key)
  if ask.op == 'take' then return decide(ask, key, ask.cost, true) end
  if ask.op == 'peek' then return decide(ask, key, ask.cost, false) end
  if ask.op == 'each' or ask.op == 'look' or ask.op == 'left' then
    return (algorithms.each or define('each'))(ask, key)
  end
  return (algorithms.operations or define('operations'))(ask, key, decide)
end

if ARGV[1] == '' then
  local time = call('TIME')
  now, margin_ms = time[1] * 1000000 + time[2], 1000
else
  -- In a replay the clock stands still or jumps, while keys expire in real time: they get an hour.
  now, margin_ms = integer(ARGV[1]), 3600000
end
reply(now)

local asks, key = {}, 1
for n = 2, #ARGV do
  local text = ARGV[n]
  local ask = asks[text]
  if not ask then
    ask = read_ask(text)
    asks[text] = ask
  end
  local before = filled
  local ok, failure = pcall(answer, ask, key)
  if not ok then
    -- What a call to Redis raises is a table or its text, as Redis' version has it.
    local why = type(failure) == 'table' and failure.err or failure
    -- What no write gets past, Redis says to the first write of a script only. So nothing has been written, and the
    -- call fails as a whole: the caller may have to find another server.
    local stops = { READONLY = true, OOM = true, MISCONF = true, NOREPLICAS = true, MASTERDOWN = true }
    if stops[string.match(why, '^%u+')] then return { err = why } end
    for place = before + 1, filled do out[place] = nil end
    filled = before
    reply(why)
  end
  key = key + #ask
end

for name, state in pairs(strings) do
  if state.dirty then
    if state.known then state.write(name, state) else call('DEL', name) end
  end
end
return out
