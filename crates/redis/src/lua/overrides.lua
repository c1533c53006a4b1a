-- The table of overrides: what single keys get instead of their policy, for a whole fleet.
--
-- KEYS   [1]  a hash from "policy:key", escaped, to "until text": until in µs, 0 for ever. Under the empty name it has
--             "version bytes": a version that is new after every change, and what all names and texts take
-- ARGV   [1]  now in µs for replays and tests; empty, as in production, for Redis' own clock
--        [2]  "load version", "set entries_max bytes_max name life_us text" (a life of 0 is for ever) or "drop name"
-- Reply  now, then for load the version, and -1 if that was named, or else the number of overrides and each as
--        "name life_us text"; for the others 1, or 0 if there is no room or nothing to drop
-- Twin   store/memory/overrides.rs
--
-- A version is a time, so that a table which was lost and made anew is not taken for the old one.

local table_key, op, rest = KEYS[1], string.match(ARGV[2], '^(%l+) (.+)$')
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local version, bytes = string.match(redis.call('HGET', table_key, '') or '0 0', '^(%d+) (%d+)$')
version, bytes = tonumber(version), tonumber(bytes)
if not version or not op then return redis.error_reply('ERR tidegate: malformed table of overrides') end

local function size(name, value) return #name + #(string.match(value, ' (.*)$') or '') end
local function whole(number) return string.format('%.0f', number) end

local function drop(name, value)
  redis.call('HDEL', table_key, name)
  bytes = bytes - size(name, value)
end

-- Adds what holds to a reply, and drops what has expired.
local function sweep(reply)
  local all = redis.call('HGETALL', table_key)
  for index = 1, #all, 2 do
    local name, value = all[index], all[index + 1]
    local until_us, text = string.match(value, '^(%d+) (.*)$')
    if name ~= '' and until_us then
      local life = until_us == '0' and 0 or tonumber(until_us) - now
      if until_us == '0' or life > 0 then
        reply[#reply + 1] = name .. ' ' .. whole(life) .. ' ' .. text
      else
        drop(name, value)
      end
    end
  end
end

local function note()
  redis.call('HSET', table_key, '', whole(version) .. ' ' .. whole(bytes))
end

if op == 'load' then
  if tonumber(rest) == version then return { now, version, -1 } end
  local before, reply = bytes, { now, version, 0 }
  sweep(reply)
  if bytes ~= before then note() end
  reply[3] = #reply - 3
  return reply
end

local changed = 0
if op == 'drop' then
  local value = redis.call('HGET', table_key, rest)
  if value then
    drop(rest, value)
    changed = 1
  end
else
  local entries_max, bytes_max, name, life, text = string.match(rest, '^(%d+) (%d+) (%S+) (%d+) (.+)$')
  if not name then return redis.error_reply('ERR tidegate: malformed override') end
  local value = (life == '0' and '0' or whole(now + tonumber(life))) .. ' ' .. text
  local function has_room()
    local old = redis.call('HGET', table_key, name)
    local count = redis.call('HLEN', table_key) - (version > 0 and 1 or 0) - (old and 1 or 0)
    local rest_bytes = bytes - (old and size(name, old) or 0)
    return count < tonumber(entries_max) and rest_bytes + size(name, value) <= tonumber(bytes_max), old
  end
  local room, old = has_room()
  if not room then
    sweep({})
    note()
    room, old = has_room()
  end
  if room then
    if old then drop(name, old) end
    redis.call('HSET', table_key, name, value)
    bytes = bytes + size(name, value)
    changed = 1
  end
end
if changed == 1 then
  version = math.max(version + 1, now)
  note()
end
return { now, changed }
