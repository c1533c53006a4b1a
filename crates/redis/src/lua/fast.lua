-- The commonest asks by far: takes and leases of one GCRA limit or token bucket that counts in µs or parts of one, and
-- whose burst is at most 2^51 such parts: 71 years of whole µs. A batch of nothing else is decided here, before anything
-- else is even defined, in half the time; what does not fit goes on below, with nothing written yet. Twins: Gcra::decide,
-- grant in core/src/lease/store.rs, and `lease` in operations.lua.
--
-- KEYS, ARGV and reply as in check.lua; asks and states as in gcra.lua.
local function decide_fast(keys, args)
  local call, pcall, match, format, fmod = redis.call, redis.pcall, string.match, string.format, math.fmod
  local ceil, EXACT = math.ceil, 9007199254740992
  local order = args[3] and args[#args]

  local limits = {}
  for n = 2, order and #args - 1 or 2 do
    local op, least, cost, interval, scale, burst, tolerance =
      match(args[n], '^(%l+):?(%d*) all (%d+) gcra,(%d+),(%d+),1,(%d+),(%d+)$')
    interval, scale, tolerance, least = tonumber(interval), tonumber(scale), tonumber(tolerance), tonumber(least)
    if op ~= (least and 'lease' or 'take') or tolerance > EXACT / 4 or interval > tolerance or scale < 1 or scale > EXACT / 4 then return end
    local whole_us = (tolerance - fmod(tolerance, scale)) / scale
    limits[n - 1] = { tonumber(cost), interval, scale, tonumber(burst), tolerance, whole_us, least }
  end

  -- One command reads all. It says of a key of another type, too, that it is not there.
  local states, missing = {}, nil
  if order then
    states = pcall('MGET', unpack(keys))
    if states.err then return end
    for n = 1, #keys do
      if not states[n] then
        missing = missing or {}
        missing[#missing + 1] = keys[n]
      end
    end
    if missing and pcall('EXISTS', unpack(missing)) ~= 0 then return end
  else
    states[1] = pcall('GET', keys[1])
    if type(states[1]) == 'table' then return end
  end

  local now, margin_ms = tonumber(args[1]), 3600000
  if not now then
    local time = call('TIME')
    now, margin_ms = time[1] * 1000000 + time[2], 1000
  elseif now > EXACT / 2 then
    return
  end

  -- By key where it stands first. There its state becomes a number once it is to be written; what a fraction of a µs
  -- is to be written with it stands beside.
  local first, fracs, scales = {}, {}, {}
  local out, filled, one = { now }, 1, limits[1]
  if limits[2] then one = nil end
  for n = 1, #keys do
    local key, limit = keys[n], one or limits[string.byte(order, n) - 48]
    local cost, interval, scale, burst, tolerance = limit[1], limit[2], limit[3], limit[4], limit[5]
    local least = limit[7]
    local at = first[key]
    if not at then
      first[key] = n
      at = n
    end
    local state, frac = states[at], 0
    local ticks = state and tonumber(state) or not state and 0
    if not ticks then
      local whole, part, parts = match(state, '^(%d+) (%d+) (%d+) 1$')
      ticks, frac = tonumber(whole), tonumber(part)
      if not ticks or frac > EXACT or tonumber(parts) > EXACT then return end
      fracs[at], scales[at] = frac, tonumber(parts)
    elseif fracs[at] then
      frac = fracs[at]
    end
    if not (ticks >= 0 and ticks <= EXACT) or ticks % 1 > 0 then return end
    -- Written under another rate: it keeps its meaning as time, rounded up to a whole µs.
    if frac > 0 and scales[at] ~= scale then
      ticks, frac = ticks + 1, 0
    end
    local ahead, writes = 0, false
    if ticks >= now then
      -- Clamped in whole µs before it is multiplied: the product stays exact.
      ahead = ticks - now
      ahead = ahead > limit[6] and tolerance + 1 or ahead * scale + frac
      writes = ahead > tolerance
      if writes then ahead = tolerance end
    end
    local room, retry, units = tolerance - ahead, 0, nil
    if least then
      -- As many units as there are, up to what is wanted.
      local left = (room - fmod(room, interval)) / interval
      if least < 1 then least = 1 end
      if cost < least then cost = least end
      if cost > left then cost = left end
      units = cost
      if cost < least then cost, units = least, 0 end
    end
    if cost <= burst and cost * interval <= room then
      writes = writes or cost > 0
      ahead, room = ahead + cost * interval, room - cost * interval
    else
      retry = cost > burst and -1 or cost * interval - room
    end
    -- How long until it would be admitted, or until the least that is wanted is there again.
    local reset, wait = ahead, retry
    if least and units > 0 and least * interval > room then wait = least * interval - room end
    if scale > 1 then
      -- To whole µs, rounded up.
      frac = fmod(ahead, scale)
      ahead = (ahead - frac) / scale
      reset = frac > 0 and ahead + 1 or ahead
      if wait > 0 then
        local rest = fmod(wait, scale)
        wait = (wait - rest) / scale + (rest > 0 and 1 or 0)
      end
    end
    if retry ~= 0 then retry = wait end
    if writes then
      states[at] = now + ahead
      if scale > 1 or fracs[at] then
        fracs[at], scales[at] = scale > 1 and frac or 0, scale
      end
    end
    out[filled + 1], out[filled + 2], out[filled + 3] = (room - fmod(room, interval)) / interval, retry, reset
    filled = filled + 3
    if least then
      -- It has no end of its own, and can come back.
      out[filled + 1], out[filled + 2], out[filled + 3], out[filled + 4] = units, -1, 1, wait
      filled = filled + 4
    end
  end

  -- Whole numbers below 2^53. With %d they are text in a third of the time, where a C long has 64 bits.
  local plain, exact = '%d', '%d %d %d 1'
  if format(plain, EXACT) ~= '9007199254740992' then plain, exact = '%.0f', '%.0f %.0f %.0f 1' end
  for n = 1, #keys do
    local ticks = states[n]
    if type(ticks) == 'number' then
      local ends, text = ticks, nil
      if fracs[n] and fracs[n] > 0 then
        ends, text = ticks + 1, format(exact, ticks, fracs[n], scales[n])
      else
        text = format(plain, ticks)
      end
      call('SET', keys[n], text, 'PX', format(plain, ceil((ends - now) / 1000) + margin_ms))
    end
  end
  return out
end

-- One key for each ask.
if ARGV[2] and #KEYS == (ARGV[3] and #ARGV[#ARGV] or 1) then
  local out = decide_fast(KEYS, ARGV)
  if out then return out end
end

