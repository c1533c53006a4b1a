-- GCRA and token bucket: one kernel. Twins: core/src/algorithm/pace.rs and gcra.rs.
--
-- Ask:   gcra,interval,scale,tick,burst,tolerance[,most]   an interval is interval/scale ticks of `tick` µs; the
--        tolerance counts in units of 1/scale tick, like all that is ahead; what lies further than `most` is repaired,
--        which is the tolerance where it is not said
-- State: "us", or "ticks frac scale tick" where that is not a whole number of µs

-- A burst of centuries ends after 2^53 µs. Instants up to here are even, and so rounded: down, to hold nobody back.
local ARRIVAL_MAX = 2 * EXACT

local function write_arrival(key, state)
  local end_us = (state.frac > 0 and state.ticks + 1 or state.ticks) * state.tick
  local text
  if state.frac == 0 and state.tick == 1 then
    text = format('%.0f', state.ticks)
  else
    text = format('%.0f %.0f %.0f %.0f', state.ticks, state.frac, state.scale, state.tick)
  end
  call('SET', key, text, 'PX', ttl_ms(end_us))
end

local function load_arrival(key)
  local state = strings[key]
  if state then return state end
  local text = call('GET', key)
  state = {
    known = text and true, dirty = false, write = write_arrival,
    ticks = text and tonumber(text) or 0, frac = 0, scale = 1, tick = 1,
  }
  if text and not tonumber(text) then
    local ticks, frac, scale, tick = string.match(text, '^(%d+) (%d+) (%d+) (%d+)$')
    if not ticks then malformed(text) end
    state.ticks, state.frac = whole(ticks, ARRIVAL_MAX) or malformed(text), stored(frac)
    state.scale, state.tick = stored(scale), stored(tick)
  elseif not whole(state.ticks, ARRIVAL_MAX) then
    malformed(text)
  end
  strings[key] = state
  return state
end

-- How far the state lies ahead of now in units, at most `most`, and whether it lay further.
local function ahead(limit, state, most)
  if not state.known then return 0, false end
  local ticks, frac = state.ticks, state.frac
  if state.tick ~= limit.tick or (frac > 0 and state.scale ~= limit.scale) then
    -- Written under another rate: it keeps its meaning as time, rounded up to a whole tick.
    ticks = div_up((frac > 0 and ticks + 1 or ticks) * state.tick, limit.tick)
    frac = 0
  end
  local now_ticks = limit.tick == 1 and now or div(now, limit.tick)
  if ticks < now_ticks then return 0, false end
  local whole = ticks - now_ticks
  -- Clamped in whole ticks before it is multiplied: the product stays exact.
  if whole > div(most, limit.scale) then return most, true end
  local units = whole * limit.scale + frac
  if units > most then return most, true end
  return units, false
end

local function move_arrival(limit, state, units)
  local now_ticks = limit.tick == 1 and now or div(now, limit.tick)
  local frac = limit.scale == 1 and 0 or fmod(units, limit.scale)
  state.known, state.dirty = true, true
  local ahead_ticks = (units - frac) / limit.scale
  local ticks = now_ticks + ahead_ticks
  if ticks > EXACT and ticks - now_ticks > ahead_ticks then ticks = ticks - 2 end
  state.ticks, state.frac = ticks, frac
  state.scale, state.tick = limit.scale, limit.tick
end

-- Units as µs from now, rounded up. A burst of centuries, counted in ms, is more µs than a number holds: that is
-- digits.
local function micros(limit, units)
  local ticks = limit.scale == 1 and units or div_up(units, limit.scale)
  if limit.tick == 1 then return ticks end
  local us, passed = ticks * limit.tick, fmod(now, limit.tick)
  if us <= EXACT then return max(0, us - passed) end
  if passed == 0 then return format('%.0f000', ticks) end
  return format('%.0f%03.0f', ticks - 1, limit.tick - passed)
end

algorithms.gcra = {
  load = load_arrival,

  read = function(interval, scale, tick, burst, tolerance, most)
    return {
      algorithm = algorithms.gcra,
      interval = interval, scale = scale, tick = tick, burst = burst, tolerance = tolerance, most = most or tolerance,
    }
  end,

  decide = function(limit, state, cost)
    local units, repaired = ahead(limit, state, limit.most)
    local room, interval = max(0, limit.tolerance - units), limit.interval
    if cost <= limit.burst and cost * interval <= room then
      local left, spent = room - cost * interval, units + cost * interval
      return div(left, interval), 0, micros(limit, spent), (cost > 0 or repaired) and spent or nil
    end
    -- In this order it stays below 2^53, also where what lies ahead passes the tolerance.
    local retry = cost > limit.burst and -1 or micros(limit, units - (limit.tolerance - cost * interval))
    return div(room, interval), retry, micros(limit, units), repaired and units or nil
  end,

  apply = function(limit, state, _, units)
    move_arrival(limit, state, units)
  end,

  refund = function(limit, state, _, amount)
    local units = ahead(limit, state, limit.most)
    move_arrival(limit, state, max(0, units - min(amount, limit.burst) * limit.interval))
  end,

  -- Their time less their age: what has run off already may have been spent again.
  give_back = function(limit, state, _, back)
    local ticks = div_up(max(back.age, now - back.granted_at), limit.tick)
    if ticks > div(limit.tolerance, limit.scale) then return end
    local credit = min(back.units, limit.burst) * limit.interval - ticks * limit.scale
    if credit <= 0 then return end
    move_arrival(limit, state, max(0, ahead(limit, state, limit.most) - credit))
  end,
}

