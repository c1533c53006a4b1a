-- Answers a batch of asks, one after another, each as if it had come by itself.
--
-- KEYS   the keys of all asks in order, one per limit, all in one slot
-- ARGV   [1]   now in µs for replays and tests; empty, as in production, for Redis' own clock
--        [2…]  the texts of the asks, each once: "op mode cost limit …"; op take, peek, refund, reset, release:id,
--              renew:id, reserve, cancel:ticks:frac:scale:tick, lease:least (the cost is the most that is wanted),
--              give:granted_at:age (the units of a lease), or each, look and left as each.lua says; mode all or any;
--              cost a whole number, or inf above 2^53; limits as their files say, and *factor behind one of which each
--              unit of the cost takes several
--        last  if there are several asks, which text each of them is: a byte each, from '1' for the first text
-- Reply  now, then per ask: the binding limit's index if there are several; remaining, retry, reset; permits; for a
--        lease the units, the µs after which it ends at the latest (-1: none), 1 if units can come back, and the µs
--        after which the least that was wanted is there again (0: now, -1: never); for each, look and left the numbers
--        of every limit. Or, in place of all these, one text: EDGES, or an error of this ask alone.
-- Twin   core/src/combine.rs and lease/store.rs, and MemoryStore::decide in store/memory.rs
--
-- Redis does not roll back, so an ask is read and decided as a whole before it writes. What would stop a write
-- (no memory, a replica, a full disk) stops the first one, and so all.

local function optional(text)
  return text ~= '' and integer(text) or nil
end

local function read_limit(name, a, b, c, d, e, f, factor)
  local algorithm = algorithms[name] or define(name)
  local limit = algorithm.read(integer(a), integer(b), optional(c), optional(d), optional(e), optional(f))
  limit.factor = optional(factor)
  return limit
end

local LIMIT = '(%l+),(%d+),(%d+),?(%d*),?(%d*),?(%d*),?(%d*)%*?(%d*)'

local function read_ask(text)
  local op, args, mode, cost, limits = string.match(text, '^(%l+)(%S*) (%l+) (%w+) (.+)$')
  if not op then error('ERR tidegate: malformed ask', 0) end
  local ask = {
    read_limit(string.match(limits, '^' .. LIMIT)),
    op = op, args = args, any = mode == 'any', cost = cost == 'inf' and math.huge or integer(cost),
  }
  if string.find(limits, ' ', 1, true) then
    local count = 0
    for name, a, b, c, d, e, f, factor in gmatch(limits, LIMIT) do
      count = count + 1
      ask[count] = read_limit(name, a, b, c, d, e, f, factor)
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

-- Why an ask failed. What a call to Redis raises is a table or its text, as Redis' version has it. The second answer is
-- whether no write gets past it: Redis says that to the first write of a script only, so that nothing has been written,
-- and the call fails as a whole. The caller may have to find another server.
local function reason(failure)
  local why = type(failure) == 'table' and failure.err or tostring(failure)
  -- Before Redis 7 it begins with the place of the call, as in "@user_script: 12: -OOM command not allowed".
  why = string.match(why, '^%S+: ?%-?%d+: %-?(%u+ .*)$') or why
  local stops = { READONLY = true, OOM = true, MISCONF = true, NOREPLICAS = true, MASTERDOWN = true }
  return why, stops[string.match(why, '^%u+')]
end

-- What cannot be read takes none of its neighbours along. Its limits are known by the spaces before them.
local function unread(why, text)
  local _, spaces = string.gsub(text, ' ', '')
  return { failure = why, count = max(0, spaces - 2) }
end

-- By ask: where its reply and its keys begin.
local order = ARGV[3] and ARGV[#ARGV]
local count = order and #order or 1
local asks, key, replies_at, keys_at = {}, 1, {}, {}
for n = 1, count do
  local text = ARGV[order and string.byte(order, n) - 47 or 2]
  local ask = asks[text]
  if not ask then
    local ok, read = pcall(read_ask, text)
    ask = ok and read or unread(reason(read), text)
    asks[text] = ask
  end
  local before = filled
  replies_at[n], keys_at[n] = before, key
  local ok, failure = true, nil
  if ask.failure then reply(ask.failure) else ok, failure = pcall(answer, ask, key) end
  if not ok then
    local why, stops = reason(failure)
    if stops then return { err = why } end
    for place = before + 1, filled do out[place] = nil end
    filled = before
    reply(why)
  end
  key = key + (ask.count or #ask)
end

-- A write that fails is the failure of all asks that had a part in it, and of no other.
local failures
for name, state in pairs(strings) do
  if state.dirty then
    local ok, failure
    if state.known then ok, failure = pcall(state.write, name, state) else ok, failure = pcall(call, 'DEL', name) end
    if not ok then
      local why, stops = reason(failure)
      if stops then return { err = why } end
      failures = failures or {}
      failures[name] = why
    end
  end
end
if not failures then return out end

replies_at[count + 1], keys_at[count + 1] = filled, key
local replies = { now }
for n = 1, count do
  local why
  for place = keys_at[n], keys_at[n + 1] - 1 do why = why or failures[KEYS[place]] end
  if why then
    replies[#replies + 1] = why
  else
    for place = replies_at[n] + 1, replies_at[n + 1] do replies[#replies + 1] = out[place] end
  end
end
return replies
