-- Before every other part. KEYS: 1 the marker of this server, 2 where it is noted that it was met without one, then the
-- items. ARGV: 1 a text that no other caller uses.
--
-- A server without a marker is new, or has lost what it knew. It stores nothing until that is clear: either all servers of
-- the set are so and one caller forms a new set of them (form.lua), or ten seconds have passed since it was first met. Then
-- it counts as one that has lost what it knew, since that time.
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = string.format('%.0f', now_us)
local marker = redis.call('GET', KEYS[1])
if not marker then
  local met = redis.call('GET', KEYS[2])
  if not met then
    met = now .. ':' .. ARGV[1]
    redis.call('SET', KEYS[2], met, 'PX', 3600000)
  end
  local since = string.match(met, '^(%d+):')
  if since and now_us - tonumber(since) < 10000000 then return {now, '', met} end
  marker = 'r:' .. (since or now)
  redis.call('SET', KEYS[1], marker)
  redis.call('DEL', KEYS[2])
end

local function live_for(key, px)
  if redis.call('PTTL', key) < px then redis.call('PEXPIRE', key, string.format('%.0f', px)) end
end
