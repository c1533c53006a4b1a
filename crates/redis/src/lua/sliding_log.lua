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
    if newest > now + limit.period then view.clamp = now else view.as_of = max(now, newest) end
    local gone = function(at) return at + limit.period > view.as_of end
    -- At the very instant stamp + period a unit no longer counts. Mostly none has gone, so look there first.
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
    local wait = min(at, view.clamp or at) + limit.period - now
    return wait > 0 and wait or malformed('a list out of order')
  end

  local function drop_newest(key)
    call('LTRIM', key, 0, -4)
  end

  local function push_run(key, at, count)
    if count == 0 then return end
    local last = call('LRANGE', key, -3, -1)
    if last[1] and stored(last[1]) == at then
      call('LSET', key, -2, stored(last[2]) + count)
      call('LSET', key, -1, stored(last[3]) + count)
    else
      call('RPUSH', key, at, (last[2] and stored(last[2]) or 0) + count, count)
    end
  end

  local function take_newest(key, amount)
    while amount > 0 do
      local last = call('LRANGE', key, -3, -1)
      if not last[1] then return end
      local count = stored(last[3])
      if count > amount then
        call('LSET', key, -2, stored(last[2]) - amount)
        call('LSET', key, -1, count - amount)
        return
      end
      drop_newest(key)
      amount = amount - count
    end
  end

  -- Takes units with this very stamp. Those after it are numbered anew; a lease is young, so that they are few.
  local function take_at(key, at, amount)
    local runs = count_runs(key)
    local index = first_run(key, 0, runs, function(stamp) return stamp >= at end)
    if index == runs then return end
    local stamp, _, count = run_at(key, index)
    if stamp ~= at then return end
    local taken = min(amount, count)
    for later = index, runs - 1 do
      local _, last = run_at(key, later)
      call('LSET', key, later * 3 + 1, last - taken)
    end
    if taken < count then
      call('LSET', key, index * 3 + 2, count - taken)
    else
      for place = index * 3, index * 3 + 2 do call('LSET', key, place, 'gone') end
      call('LREM', key, 3, 'gone')
    end
  end

  -- Forgets what has expired, pulls back what lies in the future, then adds and takes.
  local function write_log(limit, key, view, added, taken)
    if view.expired > 0 then call('LTRIM', key, view.expired * 3, -1) end
    if view.clamp then
      local pulled = 0
      local last = call('LRANGE', key, -3, -1)
      while last[1] and stored(last[1]) > view.clamp do
        pulled = pulled + stored(last[3])
        drop_newest(key)
        last = call('LRANGE', key, -3, -1)
      end
      push_run(key, view.clamp, pulled)
    end
    push_run(key, view.as_of, added)
    take_newest(key, taken)
    local newest = call('LINDEX', key, -3)
    if newest then call('PEXPIRE', key, ttl_ms(stored(newest) + limit.period)) end
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
        reset = view.as_of + limit.period - now
      elseif view.live > 0 then
        reset = min(view.newest, view.clamp or view.newest) + limit.period - now
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
    end,

    reset = function(_, key)
      call('DEL', key)
    end,
  }
end

