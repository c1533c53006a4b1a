-- Fixed window and calendar quota: a count that starts afresh at an edge. Twins: core/src/algorithm/window.rs,
-- fixed_window.rs and quota.rs.
--
-- Ask:   window,limit,period             edges are multiples of the period
--        edges,limit,e0,e1,e2,e3         the edges around the caller's now: e0 <= now < e1; where this script's now
--                                        lies elsewhere it writes nothing and replies EDGES, and is asked again
-- State: "end count"

if name == 'window' or name == 'edges' then
  local function write_window(key, state)
    call('SET', key, format('%.0f %.0f', state.ends, state.count), 'PX', ttl_ms(state.ends))
  end

  local function load_window(key)
    local state = strings[key]
    if state then return state end
    local text = call('GET', key)
    state = { known = text and true, dirty = false, write = write_window, ends = 0, count = 0 }
    if text then
      local ends, count = string.match(text, '^(%d+) (%d+)$')
      if not ends then malformed(text) end
      state.ends, state.count = stored(ends), stored(count)
    end
    strings[key] = state
    return state
  end

  -- The ends of the window that holds now, and of the one after it.
  local function window_edges(limit)
    if limit.period then
      local ends = now - fmod(now, limit.period) + limit.period
      return ends, ends + limit.period
    end
    if now < limit.e0 or now >= limit.e2 then error('EDGES', 0) end
    if now < limit.e1 then return limit.e1, limit.e2 end
    return limit.e2, limit.e3
  end

  -- The end and the count in force, and whether they had to be repaired.
  local function in_force(limit, state)
    local ends, next_ends = window_edges(limit)
    if not state.known or state.ends <= now then return ends, 0, false end
    -- The clock stepped back over one edge: the count of the next window stays in force.
    if state.ends <= next_ends then return max(state.ends, ends), state.count, false end
    return ends, state.count, true
  end

  -- The end of the window that held an instant, or nil for one that is far from now.
  local function end_of(limit, at)
    if limit.period then return at - fmod(at, limit.period) + limit.period end
    if at < limit.e0 or at >= limit.e3 then return nil end
    return at < limit.e1 and limit.e1 or at < limit.e2 and limit.e2 or limit.e3
  end

  local function move_window(state, ends, count)
    state.known, state.dirty = true, true
    state.ends, state.count = ends, count
  end

  algorithms.window = {
    load = load_window,

    read = function(limit, period)
      return { algorithm = algorithms.window, limit = limit, period = period }
    end,

    decide = function(limit, state, cost)
      local ends, count, repaired = in_force(limit, state)
      local reset, left = ends - now, max(0, limit.limit - count)
      if cost <= left then
        return left - cost, 0, reset, (cost > 0 or repaired) and ends or nil, count + cost
      end
      return left, cost > limit.limit and -1 or reset, reset, repaired and ends or nil, count
    end,

    apply = function(_, state, _, ends, count)
      move_window(state, ends, count)
    end,

    refund = function(limit, state, _, amount)
      local ends, count = in_force(limit, state)
      move_window(state, ends, max(0, count - amount))
    end,

    -- A lease ends with the window that pays for it.
    term = function(limit, state)
      local ends = in_force(limit, state)
      return ends - now, ends == window_edges(limit)
    end,

    -- To the window that paid for them, if it is still the one stored and can be in force.
    give_back = function(limit, state, _, back)
      local ends, next_ends = window_edges(limit)
      local granted = end_of(limit, back.granted_at)
      if state.ends == granted and (granted == ends or granted == next_ends) then
        move_window(state, state.ends, max(0, state.count - back.units))
      end
    end,
  }

  algorithms.edges = {
    load = algorithms.window.load,
    decide = algorithms.window.decide,
    apply = algorithms.window.apply,
    refund = algorithms.window.refund,
    term = algorithms.window.term,
    give_back = algorithms.window.give_back,

    read = function(limit, e0, e1, e2, e3)
      return { algorithm = algorithms.edges, limit = limit, e0 = e0, e1 = e1, e2 = e2, e3 = e3 }
    end,
  }
end

