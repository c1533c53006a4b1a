-- Sliding log: exact, an instant per admission. Twins: core/src/algorithm/sliding_log.rs and state/log.rs.
--
-- Ask:   log,limit,period
-- State: a list of runs, oldest first, three numbers each: the instant, the number of the run's last unit, and how
--        many units. Units are numbered on, so that sums are differences and searches are binary.

if name == 'log' then
  local function run_at(key, index)
    local run = call('LRANGE', key, index * 3, index * 3 + 2)
    return stored(run[1]), stored(run[2]), stored(run[3])
  end

  local function count_runs(key)
    local numbers = call('LLEN', key)
    if fmod(numbers, 3) > 0 then malformed('a list of ' .. numbers) end
    return numbers / 3
  end

  -- The first run in [low, high) for which `is` holds, if it holds for all after that; `high` if for none.
  local function first_run(key, low, high, is)
    while low < high do
      local middle = floor((low + high) / 2)
      if is(run_at(key, middle)) then high = middle else low = middle + 1 end
    end
    return low
  end

  -- The log as of one decision. Not kept between asks: a log may be long, and most of it is never looked at.
  local function view_log(limit, key)
    local runs = count_runs(key)
    local view = { runs = runs, expired = 0, live = 0, as_of = now }
    if runs == 0 then return view end
    local newest, last = run_at(key, -1)
    if newest - now > limit.period then view.clamp = now else view.as_of = max(now, newest) end
    -- At the very instant stamp + period a unit no longer counts. Mostly none has gone, so look there first. A sum could
    -- pass 2^53, where the difference is exact.
    local gone = function(at) return at > view.as_of - limit.period end
    local at, first, count = run_at(key, 0)
    local base = first - count
    if not gone(at) then
      view.expired = first_run(key, 1, runs, gone)
      local _, before = run_at(key, view.expired - 1)
      base = before
    end
    if count > first or last < base or newest < at then malformed('a list out of order') end
    view.base, view.last, view.live, view.newest = base, last, last - base, newest
    return view
  end

  -- When the units that stand in the way have expired: the (live + cost - limit)-th oldest.
  local function retry_log(limit, key, view, cost)
    local wanted = view.base + view.live + cost - limit.limit
    local index = view.expired
    local at, last = run_at(key, index)
    if last < wanted then
      index = first_run(key, index + 1, view.runs, function(_, unit) return unit >= wanted end)
      at = run_at(key, index)
    end
    local wait = limit.period - (now - min(at, view.clamp or at))
    return wait > 0 and wait or malformed('a list out of order')
  end

  local function push_run(key, at, count)
    if count == 0 then return end
    local last = call('LRANGE', key, -3, -1)
    if last[1] and stored(last[1]) == at then
      call('LSET', key, -2, digits(stored(last[2]) + count))
      call('LSET', key, -1, digits(stored(last[3]) + count))
    else
      call('RPUSH', key, digits(at), digits((last[2] and stored(last[2]) or 0) + count), digits(count))
    end
  end

  -- Drops the runs from this index on.
  local function drop_from(key, index)
    if index == 0 then call('DEL', key) else call('LTRIM', key, 0, index * 3 - 1) end
  end

  -- Drops the units after the one with this number.
  local function drop_after(key, runs, unit)
    local index = first_run(key, 0, runs, function(_, last) return last > unit end)
    if index == runs then return end
    local _, last, count = run_at(key, index)
    local kept = count - (last - unit)
    if kept <= 0 then return drop_from(key, index) end
    drop_from(key, index + 1)
    call('LSET', key, -2, digits(unit))
    call('LSET', key, -1, digits(kept))
  end

  -- Pulls the runs after `at` back to it.
  local function pull_back(key, runs, at)
    local index = first_run(key, 0, runs, function(stamp) return stamp > at end)
    if index == runs then return end
    local _, first, count = run_at(key, index)
    local _, last = run_at(key, -1)
    drop_from(key, index)
    push_run(key, at, last - (first - count))
  end

  -- Takes units with this very stamp. Those after it are numbered anew, in one reading and one writing; a lease is
  -- young, so that they are few. Where they are more than a call may go through, the units stay spent.
  local function take_at(key, at, amount)
    local runs = count_runs(key)
    local index = first_run(key, 0, runs, function(stamp) return stamp >= at end)
    if index == runs then return end
    local stamp, last, count = run_at(key, index)
    local later = runs - index - 1
    if stamp ~= at or later > steps_left then return end
    steps_left = steps_left - later
    local taken = min(amount, count)
    local numbers = call('LRANGE', key, index * 3 + 3, -1)
    for n = 2, #numbers, 3 do numbers[n] = digits(stored(numbers[n]) - taken) end
    drop_from(key, index)
    if taken < count then call('RPUSH', key, digits(at), digits(last - taken), digits(count - taken)) end
    if later > 0 then call('RPUSH', key, unpack(numbers)) end
  end

  local function expire_log(limit, key)
    local newest = call('LINDEX', key, -3)
    if newest then call('PEXPIRE', key, ttl_ms(stored(newest) + limit.period)) end
  end

  -- Forgets what has expired, pulls back what lies in the future, then adds, or takes the newest.
  local function write_log(limit, key, view, added, taken)
    local runs = view.runs - view.expired
    if view.expired > 0 then call('LTRIM', key, view.expired * 3, -1) end
    if view.clamp then pull_back(key, runs, view.clamp) end
    push_run(key, view.as_of, added)
    if taken > 0 then
      local _, last = run_at(key, -1)
      drop_after(key, count_runs(key), last - taken)
    end
    expire_log(limit, key)
  end

  algorithms.log = {
    load = function(key)
      return key
    end,

    read = function(limit, period)
      return { algorithm = algorithms.log, limit = limit, period = period }
    end,

    decide = function(limit, key, cost)
      local view = view_log(limit, key)
      local left = max(0, limit.limit - view.live)
      local admits = cost <= left
      local added = admits and cost or 0
      local reset = 0
      if added > 0 then
        reset = limit.period - (now - view.as_of)
      elseif view.live > 0 then
        reset = limit.period - (now - min(view.newest, view.clamp or view.newest))
        if reset < 0 then malformed('a list out of order') end
      end
      local retry = 0
      if cost > limit.limit then
        retry = -1
      elseif not admits then
        retry = retry_log(limit, key, view, cost)
      end
      return left - added, retry, reset, (added > 0 or view.clamp) and view or nil, added
    end,

    apply = function(limit, key, _, view, added)
      write_log(limit, key, view, added, 0)
    end,

    -- The newest units first.
    refund = function(limit, key, _, amount)
      local view = view_log(limit, key)
      if view.runs > 0 then write_log(limit, key, view, 0, min(amount, view.live)) end
    end,

    -- After a step back a unit gets the newest stamp, and cannot be told from those that had it before.
    term = function(limit, key)
      return math.huge, view_log(limit, key).as_of == now
    end,

    -- Their own stamps.
    give_back = function(limit, key, _, back)
      local view = view_log(limit, key)
      if view.runs == 0 or view.clamp then return end
      write_log(limit, key, view, 0, 0)
      take_at(key, back.granted_at, back.units)
      expire_log(limit, key)
    end,

    reset = function(_, key)
      call('DEL', key)
    end,
  }
end

