-- What is asked for less often than to take or peek. Twins: Limit::refund, Limit::renew, State::reset and
-- State::release in core, lease/store.rs, and of leases fast.lua.

if name == 'operations' then
  function algorithms.operations(ask, key, decide)
    local args = {}
    for number in gmatch(ask.args, ':(%d+)') do
      args[#args + 1] = whole(number, ARRIVAL_MAX) or integer(number)
    end

    local function each(what)
      for n = 1, #ask do
        local limit, name = ask[n], KEYS[key + n - 1]
        local state = limit.algorithm.load(name)
        if type(state) == 'string' or state.known then what(limit, state, name) end
      end
    end

    -- Everything is read and checked before anything is written.
    local function read_first()
      local before = filled
      decide(ask, key, 0, false)
      filled = before
    end

    -- Every limit has to know the operation, which has so many arguments.
    local function needs(what, count)
      for n = 1, #ask do
        if not ask[n].algorithm[what] then error('ERR tidegate: a limit that cannot ' .. what, 0) end
      end
      if #args ~= count then error('ERR tidegate: expected ' .. count .. ' arguments', 0) end
    end

    local operations = {}

    function operations.refund()
      read_first()
      each(function(limit, state, name) limit.algorithm.refund(limit, state, name, multiplied(limit, ask.cost)) end)
      decide(ask, key, 0, false)
    end

    function operations.reset()
      -- All or nothing: what is deleted may be of any type, but places are not.
      for n = 1, #ask do
        local readable = ask[n].algorithm.readable
        if readable then readable(KEYS[key + n - 1]) end
      end
      for n = 1, #ask do
        local name, reset = KEYS[key + n - 1], ask[n].algorithm.reset
        if reset then
          reset(ask[n], name)
        else
          strings[name] = nil
          call('DEL', name)
        end
      end
      decide(ask, key, 0, false)
    end

    function operations.lease()
      needs('decide', 1)
      local left, least = math.huge, max(args[1], 1)
      for n = 1, #ask do
        local limit = ask[n]
        -- A check of cost 0 is always admitted, and answers what is left.
        local rest = limit.algorithm.decide(limit, limit.algorithm.load(KEYS[key + n - 1]), 0)
        left = min(left, div(rest, limit.factor or 1))
      end
      local units = left < least and 0 or min(left, max(ask.cost, least))
      local ends, returnable = math.huge, true
      for n = 1, #ask do
        local algorithm = ask[n].algorithm
        if algorithm.term then
          local ends_after, as_of_now = algorithm.term(ask[n], algorithm.load(KEYS[key + n - 1]))
          ends, returnable = min(ends, ends_after), returnable and as_of_now
        end
      end
      local before = filled
      decide(ask, key, units == 0 and least or units, true)
      local retry = ask[2] and before + 3 or before + 2
      local more = out[retry]
      if units > 0 and left - units < least then
        local decided = filled
        decide(ask, key, least, false)
        more = out[retry + decided - before]
        filled = decided
      end
      reply(units)
      reply(ends == math.huge and -1 or ends)
      reply(returnable and 1 or 0)
      reply(more)
    end

    function operations.give()
      needs('give_back', 2)
      read_first()
      each(function(limit, state, name)
        local back = { units = multiplied(limit, ask.cost), granted_at = args[1], age = args[2] }
        limit.algorithm.give_back(limit, state, name, back)
      end)
      decide(ask, key, 0, false)
    end

    function operations.release()
      needs('release', 1)
      local released = ask[1].algorithm.release(KEYS[key], args[1], ask.cost)
      decide(ask, key, 0, false)
      reply(released and 1 or 0)
    end

    function operations.renew()
      needs('renew', 1)
      local renewed = ask[1].algorithm.renew(ask[1], KEYS[key], args[1], ask.cost)
      decide(ask, key, 0, false)
      reply(renewed and 1 or 0)
    end

    local function place(retry, delay, ticks, frac)
      reply(retry)
      reply(delay)
      reply(ticks)
      reply(frac)
    end

    function operations.reserve()
      needs('reserve', 0)
      place(ask[1].algorithm.reserve(ask[1], KEYS[key], ask.cost))
    end

    function operations.cancel()
      needs('cancel', 4)
      place(ask[1].algorithm.cancel(ask[1], KEYS[key], ask.cost, unpack(args)))
    end

    local operation = operations[ask.op]
    if not operation then error('ERR tidegate: unknown operation', 0) end
    operation()
  end
end

