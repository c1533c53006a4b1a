-- The readings of all nodes, and the state that follows from them, once per tick for a whole fleet. The first node of a
-- tick gets what all nodes reported in the tick before, makes one step of it, and has that kept; the others read it. The
-- reports of a tick are complete when it is over, so all nodes that make the step make the same.
--
-- KEYS   [1]  a hash from nodes to "tick reading" of what each reported last, and " tick reading" of the tick before that.
--             Under the empty name it has "tick state": what was kept last, and in which tick
-- ARGV   [1]  now in µs for replays and tests; empty, as in production, for Redis' own clock
--        [2]  "report tick_us node reading" or "keep tick before state": before is the tick of the state that it was made
--             of, or - if there was none
-- Reply  now, then for report the tick, the tick that was kept last or -1, the number of readings or -1 if this tick has
--        its state; that state, with an s before it; each reading as "node reading". For keep 1, or 0 if another one
--        came first
-- Twin   store/memory/coordination.rs

local key, op, rest = KEYS[1], string.match(ARGV[2], '^(%l+) (.+)$')
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local NODES_MAX, TICKS_KEPT, LIFE_MS = 1000, 10, '600000'
local kept_tick, state = string.match(redis.call('HGET', key, '') or '', '^(%d+) (.*)$')
local malformed = redis.error_reply('ERR tidegate: malformed readings')

if op == 'keep' then
  local tick, before, text = string.match(rest, '^(%d+) (%S+) (.*)$')
  if not tick then return malformed end
  local keeps = (kept_tick or '-') == before
  if keeps then
    redis.call('HSET', key, '', tick .. ' ' .. text)
    redis.call('PEXPIRE', key, LIFE_MS)
  end
  return { now, keeps and 1 or 0 }
end

local tick_us, node, reading = string.match(rest or '', '^(%d+) (%x+) (%S+)$')
if op ~= 'report' or not node or tonumber(tick_us) < 1 then return malformed end
tick_us = tonumber(tick_us)
local tick = (now - math.fmod(now, tick_us)) / tick_us
local before = redis.call('HGET', key, node)
-- One name is the state's.
if before or redis.call('HLEN', key) <= NODES_MAX then
  local name = string.format('%.0f', tick)
  local last, rest_of = string.match(before or '', '^(%d+ %S+)(.*)$')
  -- A second report in one tick replaces the first.
  if last and string.match(last, '^%d+') ~= name then rest_of = ' ' .. last end
  redis.call('HSET', key, node, name .. ' ' .. reading .. (rest_of or ''))
  redis.call('PEXPIRE', key, LIFE_MS)
end

local kept = tonumber(kept_tick)
local reply = { now, tick, kept or -1, -1 }
if kept then reply[5] = 's' .. state end
if kept and kept >= tick and kept <= tick + TICKS_KEPT then return reply end

-- The tick of the report that begins here, and where its reading begins and ends. A search for a space is many times
-- faster than a pattern, and there may be a thousand values of two readings each.
local function tick_at(value, from)
  local space = string.find(value, ' ', from, true)
  if not space then return nil end
  return tonumber(string.sub(value, from, space - 1)), space + 1, string.find(value, ' ', space + 1, true) or #value + 1
end

local all, count = redis.call('HGETALL', key), 0
for index = 1, #all, 2 do
  local value = all[index + 1]
  local reported, at, ends = tick_at(value, 1)
  if all[index] ~= '' and reported then
    if reported < tick - TICKS_KEPT or reported > tick then
      redis.call('HDEL', key, all[index])
    else
      if reported ~= tick - 1 then reported, at, ends = tick_at(value, ends + 1) end
      if reported == tick - 1 then
        count = count + 1
        reply[#reply + 1] = all[index] .. ' ' .. string.sub(value, at, ends - 1)
      end
    end
  end
end
reply[4] = count
return reply
