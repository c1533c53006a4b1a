-- The commonest ask by far, one take from one GCRA limit or token bucket whose unit is a whole number of µs. Decided
-- before anything else is even defined, which halves its time; what does not fit goes on below. Twin: Gcra::decide_whole.
--
-- KEYS, ARGV and reply as in check.lua; ask and state as in gcra.lua.
if #ARGV == 2 then
  local cost, interval, burst, tolerance =
    string.match(ARGV[2], '^take all (%d+) gcra,(%d+),1,1,(%d+),(%d+)$')
  local text = cost and redis.call('GET', KEYS[1])
  local arrival = text and tonumber(text) or not text and 0
  if cost and arrival and arrival >= 0 and arrival <= 9007199254740992 then
    cost, interval, burst, tolerance = tonumber(cost), tonumber(interval), tonumber(burst), tonumber(tolerance)
    local now, margin_ms = tonumber(ARGV[1]), 3600000
    if not now then
      local time = redis.call('TIME')
      now, margin_ms = time[1] * 1000000 + time[2], 1000
    end
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
      local ttl_ms = math.ceil(ahead / 1000) + margin_ms
      redis.call('SET', KEYS[1], string.format('%.0f', now + ahead), 'PX', ttl_ms)
    end
    return { now, (room - math.fmod(room, interval)) / interval, retry, ahead }
  end
end

