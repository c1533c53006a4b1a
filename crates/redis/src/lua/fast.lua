-- The commonest asks by far: takes from one GCRA limit or token bucket whose unit is a whole number of µs, and whose
-- burst lasts less than 71 years (2^51 µs). A batch of nothing else is decided here, before anything else is even
-- defined, in half the time; what does not fit goes on below, with nothing written yet. Twin: Gcra::decide_micros.
--
-- KEYS, ARGV and reply as in check.lua; asks and states as in gcra.lua.
if #ARGV == #KEYS + 1 then
  local match, fmod, EXACT = string.match, math.fmod, 9007199254740992
  local limits, arrivals, fits = {}, {}, true
  for n = 1, #KEYS do
    local text, key = ARGV[n + 1], KEYS[n]
    if not limits[text] then
      local cost, interval, burst, tolerance = match(text, '^take all (%d+) gcra,(%d+),1,1,(%d+),(%d+)$')
      fits = cost and tonumber(tolerance) <= EXACT / 4 and tonumber(interval) <= tonumber(tolerance)
      if not fits then break end
      limits[text] = { tonumber(cost), tonumber(interval), tonumber(burst), tonumber(tolerance) }
    end
    if not arrivals[key] then
      -- An error comes back as a table, which is no number either.
      local state = redis.pcall('GET', key)
      local arrival = state and tonumber(state) or not state and 0
      fits = arrival and arrival >= 0 and arrival <= EXACT
      if not fits then break end
      arrivals[key] = arrival
    end
  end
  if fits then
    local now, margin_ms = tonumber(ARGV[1]), 3600000
    if not now then
      local time = redis.call('TIME')
      now, margin_ms = time[1] * 1000000 + time[2], 1000
    end
    local out, filled, charged = { now }, 1, {}
    for n = 1, #KEYS do
      local key, limit = KEYS[n], limits[ARGV[n + 1]]
      local cost, interval, burst, tolerance = limit[1], limit[2], limit[3], limit[4]
      local arrival = arrivals[key]
      local ahead = arrival > now and arrival - now or 0
      local writes = ahead > tolerance
      if writes then ahead = tolerance end
      local room, retry = tolerance - ahead, 0
      if cost <= burst and cost * interval <= room then
        writes = writes or cost > 0
        ahead, room = ahead + cost * interval, room - cost * interval
      else
        retry = cost > burst and -1 or cost * interval - room
      end
      if writes then
        arrivals[key] = now + ahead
        charged[key] = true
      end
      out[filled + 1], out[filled + 2], out[filled + 3] = (room - fmod(room, interval)) / interval, retry, ahead
      filled = filled + 3
    end
    for key in pairs(charged) do
      local arrival = arrivals[key]
      -- Whole numbers below 2^52: every version of Redis writes all their digits itself, which is faster than %.0f.
      redis.call('SET', key, arrival, 'PX', math.ceil((arrival - now) / 1000) + margin_ms)
    end
    return out
  end
end

