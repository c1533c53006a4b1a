-- Answers a batch of asks, one after another, each as if it had come by itself.
--
-- KEYS   the keys of all asks in order, one per limit, all in one slot
-- ARGV   [1]   now in µs for replays and tests; empty, as in production, for Redis' own clock
--        [2…]  per ask "op mode cost limit …": op take, peek, refund, reset, release:id, reserve,
--              cancel:ticks:frac:scale:tick, lease:least (the cost is the most that is wanted) or
--              give:granted_at:age (the units of a lease); mode all or any; cost a whole number, or inf above 2^53;
--              limits as their files say
-- Reply  now, then per ask: the binding limit's index if there are several; remaining, retry, reset; permits; for a
--        lease the units, the µs after which it ends at the latest (-1: none), and 1 if units can come back. Or, in
--        place of all these, one text: EDGES, or an error of this ask alone.
-- Twin   core/src/combine.rs and lease/store.rs, and MemoryStore::settle in store/memory.rs
--
-- Redis does not roll back, so an ask is read and decided as a whole before it writes. What would stop a write
-- (no memory, a replica, a full disk) stops the first one, and so all.

local out, filled = {}, 0

local function reply(value)
  filled = filled + 1
  out[filled] = value
end

-- Whether an answer says more about the whole than the one before. Ties go to the first declared.
local function binds_more(any, remaining, retry, old_remaining, old_retry)
  local allowed, old_allowed = retry == 0, old_retry == 0
  if allowed ~= old_allowed then return allowed == any end
  if allowed then
    if any then return remaining > old_remaining end
    return remaining < old_remaining
  end
  retry, old_retry = tonumber(retry), tonumber(old_retry)
  if retry == -1 then retry = math.huge end
  if old_retry == -1 then old_retry = math.huge end
  if any then return retry < old_retry end
  return retry > old_retry
end

-- Decides every limit of an ask, and applies what is to be written if `writes`: the charges, or where the whole is
-- refused the repairs.
local function decide(ask, first_key, cost, writes)
  local changes, admitted = {}, 0
  local binding, remaining, retry, reset
  for n = 1, #ask do
    local limit, key = ask[n], KEYS[first_key + n - 1]
    local state = limit.algorithm.load(key)
    local left, wait, full, a, b, c = limit.algorithm.decide(limit, state, cost)
    changes[n] = { state, a, b, c }
    if wait == 0 then admitted = admitted + 1 end
    if not binding or binds_more(ask.any, left, wait, remaining, retry) then
      binding, remaining, retry, reset = n - 1, left, wait, full
    end
  end
  if #ask > 1 then reply(binding) end
  reply(remaining)
  reply(retry)
  reply(reset)
  if not writes then return end
  local refused = not ask.any and admitted < #ask
  for n = 1, #ask do
    local limit, change = ask[n], changes[n]
    if refused then
      local _, _, _, a, b, c = limit.algorithm.decide(limit, change[1], 0)
      change[2], change[3], change[4] = a, b, c
    end
    local granted
    if change[2] then
      granted = limit.algorithm.apply(limit, change[1], KEYS[first_key + n - 1], change[2], change[3], change[4])
    end
    if limit.grants then reply(granted or 0) end
  end
end

local function forget(limit, key)
  local reset = limit.algorithm.reset
  if reset then return reset(limit, key) end
  strings[key] = { known = false, dirty = true }
end

local operations = {
  take = function(ask, key)
    decide(ask, key, ask.cost, true)
  end,

  peek = function(ask, key)
    decide(ask, key, ask.cost, false)
  end,

  refund = function(ask, key)
    -- Decided twice: the first time to have read and checked everything before anything is written.
    local before = filled
    decide(ask, key, 0, false)
    filled = before
    for n = 1, #ask do
      local limit = ask[n]
      local state = limit.algorithm.load(KEYS[key + n - 1])
      if type(state) == 'string' or state.known then
        limit.algorithm.refund(limit, state, KEYS[key + n - 1], ask.cost)
      end
    end
    decide(ask, key, 0, false)
  end,

  reset = function(ask, key)
    for n = 1, #ask do forget(ask[n], KEYS[key + n - 1]) end
    decide(ask, key, 0, false)
  end,

  lease = function(ask, key)
    -- A check of cost 0 is always admitted, and its binding limit is the one with the least left.
    local before = filled
    decide(ask, key, 0, false)
    local left, least = out[#ask > 1 and before + 2 or before + 1], max(ask.args[1], 1)
    filled = before
    local units = left < least and 0 or min(left, max(ask.cost, least))
    local ends, returnable = math.huge, true
    for n = 1, #ask do
      local algorithm = ask[n].algorithm
      if algorithm.term then
        local ends_after, as_of_now = algorithm.term(ask[n], algorithm.load(KEYS[key + n - 1]))
        ends, returnable = min(ends, ends_after), returnable and as_of_now
      end
    end
    decide(ask, key, units == 0 and least or units, true)
    reply(units)
    reply(ends == math.huge and -1 or ends)
    reply(returnable and 1 or 0)
  end,

  give = function(ask, key)
    local back = { units = ask.cost, granted_at = ask.args[1], age = ask.args[2] }
    for n = 1, #ask do
      local limit = ask[n]
      local state = limit.algorithm.load(KEYS[key + n - 1])
      if type(state) == 'string' or state.known then
        limit.algorithm.give_back(limit, state, KEYS[key + n - 1], back)
      end
    end
    decide(ask, key, 0, false)
  end,

  release = function(ask, key)
    release(KEYS[key], ask.args[1], ask.cost)
    decide(ask, key, 0, false)
  end,

  reserve = function(ask, key)
    local retry, delay, ticks, frac = reserve(ask[1], KEYS[key], ask.cost)
    reply(retry) reply(delay) reply(ticks) reply(frac)
  end,

  cancel = function(ask, key)
    local retry, delay, ticks, frac = cancel(ask[1], KEYS[key], ask.cost, unpack(ask.args))
    reply(retry) reply(delay) reply(ticks) reply(frac)
  end,
}

local function read_ask(text)
  local ask, n = {}, 0
  for word in gmatch(text, '%S+') do
    if n == 0 then
      ask.op = string.match(word, '^%l+')
      ask.args = {}
      for number in gmatch(word, ':(%d+)') do ask.args[#ask.args + 1] = integer(number) end
    elseif n == 1 then
      ask.any = word == 'any'
    elseif n == 2 then
      ask.cost = word == 'inf' and math.huge or integer(word)
    else
      local name, numbers = string.match(word, '^(%l+),(.+)$')
      local algorithm = algorithms[name]
      if not algorithm then error('ERR tidegate: unknown algorithm', 0) end
      local args = {}
      for number in gmatch(numbers, '[^,]+') do args[#args + 1] = integer(number) end
      local limit = algorithm.read(unpack(args))
      limit.algorithm = algorithm
      ask[n - 2] = limit
    end
    n = n + 1
  end
  if not ask.op or not operations[ask.op] or not ask[1] then error('ERR tidegate: malformed ask', 0) end
  return ask
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
  local ok, failure = pcall(operations[ask.op], ask, key)
  if not ok then
    for place = before + 1, filled do out[place] = nil end
    filled = before
    reply(type(failure) == 'table' and failure.err or failure)
  end
  key = key + #ask
end

for name, state in pairs(strings) do
  if state.dirty then
    if state.known then state.write(name, state) else call('DEL', name) end
  end
end
return out
