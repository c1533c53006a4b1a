-- The minimum cost of a check: GCRA on Redis' clock, one key, without fractions, repairs, peeks or batches.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local after = tat + cost * interval
if after - burst * interval > now then
  return { 0, 0, after - burst * interval - now, tat - now }
end
redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000))
return { 1, math.floor((burst * interval - (after - now)) / interval), 0, after - now }
