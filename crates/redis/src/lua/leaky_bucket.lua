-- Leaky bucket: delays instead of refusing. Twin: core/src/algorithm/leaky_bucket.rs.
--
-- Ask:   reserve cost leaky,interval,scale,tick,limit,max_wait,furthest     the last two in units of 1/scale tick
--        cancel:ticks:frac:scale:tick cost leaky,…                          the place to give back
-- State: as GCRA's
-- Reply: retry (0 accepted, -1 never), delay, and the place: ticks and frac, or -1 where there is none

if name == 'leaky' then
  local function reserve(limit, key, cost)
    local state = load_arrival(key)
    local units, repaired = ahead(limit, state, limit.furthest)
    if cost > limit.limit or (cost > 0 and units > limit.max_wait) then
      if repaired then move_arrival(limit, state, units) end
      if cost > limit.limit then return -1, 0, -1, 0 end
      return micros(limit, units - limit.max_wait), 0, -1, 0
    end
    local delay = micros(limit, units)
    if cost == 0 and not repaired then return 0, delay, -1, 0 end
    move_arrival(limit, state, units + cost * limit.interval)
    return 0, delay, state.ticks, state.frac
  end

  local function cancel(limit, key, cost, ticks, frac, scale, tick)
    local state = load_arrival(key)
    local last = state.known and state.ticks == ticks and state.frac == frac and state.tick == tick
    if not last or (frac > 0 and state.scale ~= scale) or cost > limit.limit then
      return -1, 0, -1, 0
    end
    local units = ahead(limit, state, limit.furthest)
    move_arrival(limit, state, max(0, units - cost * limit.interval))
    return 0, 0, -1, 0
  end

  algorithms.leaky = {
    reserve = reserve,
    cancel = cancel,

    read = function(interval, scale, tick, limit, max_wait, furthest)
      return {
        algorithm = algorithms.leaky,
        interval = interval, scale = scale, tick = tick, limit = limit, max_wait = max_wait, furthest = furthest,
      }
    end,
  }
end

