-- Makes this server one of a new set, if it is still the one that was met without a marker: it has stored nothing since, and
-- was not restarted either. KEYS as in standing.lua; ARGV: 1 the note that the caller has read.
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
local time = redis.call('TIME')
redis.call('SET', KEYS[1], string.format('n:%.0f', time[1] * 1000000 + time[2]))
redis.call('DEL', KEYS[2])
return 1
