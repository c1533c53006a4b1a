-- Announces a node, and counts all that have announced themselves of late.
--
-- KEYS   [1]  a sorted set of node ids by the instant in µs they were last heard of
-- ARGV   [1]  now in µs for replays and tests; empty, as in production, for Redis' own clock
--        [2]  "id age_us": who it is, and how old an announcement may be to count
-- Reply  now, the number of nodes
-- Twin   none: stores in memory have no other nodes

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local id, age = string.match(ARGV[2], '^(%x+) (%d+)$')
if not id then return redis.error_reply('ERR tidegate: malformed announcement') end
local text = string.format('%.0f', now)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - tonumber(age)))
-- Those from the future were written by another clock: they would never age.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. text, '+inf')
redis.call('ZADD', KEYS[1], text, id)
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil(tonumber(age) / 1000)))
return { now, redis.call('ZCARD', KEYS[1]) }
