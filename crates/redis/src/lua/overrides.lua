-- The table of overrides: what single keys get instead of their policy, for a whole fleet.
--
-- KEYS   [1]  a hash from "policy:key", escaped, to "until text": until in µs, 0 for ever. Under the empty name it has
--             "version bytes": a version that is new after every change, and what all names and texts take
-- ARGV   [1]  now in µs for replays and tests; empty, as in production, for Redis' own clock
--        [2]  "load version cursor", "sweep cursor", "set entries_max bytes_max name life_us text" (a life of 0 is for
--             ever) or "drop name"
-- Reply  now, then for load the version, and -1 if that was named, or else the number of overrides of one page and each
--        as "name life_us text", and the cursor of the next page, 0 after the last; for sweep, which drops what has
--        expired of one page, its next cursor; for the others 1, or 0 if there is no room or nothing to drop
-- Twin   store/memory/overrides.rs
--
-- A version is a time, so that a table which was lost and made anew is not taken for the old one. A table is read page by
-- page, so that no call blocks Redis for long: pages of one version are one table, in which a name may come twice.

local table_key, op, rest = KEYS[1], string.match(ARGV[2], '^(%l+) (.+)$')
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local version, bytes = string.match(redis.call('HGET', table_key, '') or '0 0', '^(%d+) (%d+)$')
version, bytes = tonumber(version), tonumber(bytes)
if not version then return redis.error_reply('WRONGTYPE tidegate: malformed table of overrides') end
if not op then return redis.error_reply('ERR tidegate: malformed request') end

local function size(name, value) return #name + #(string.match(value, ' (.*)$') or '') end
local function whole(number) return string.format('%.0f', number) end

local function drop(name, value)
  -- A page may have a name twice.
  if redis.call('HDEL', table_key, name) == 1 then bytes = bytes - size(name, value) end
end

local function note()
  redis.call('HSET', table_key, '', whole(version) .. ' ' .. whole(bytes))
end

-- What is left of the life of an override in µs, 0 for ever and below 0 if it has ended, and its text.
local function life_of(value)
  local until_us, text = string.match(value, '^(%d+) (.*)$')
  if not until_us or until_us == '0' then return tonumber(until_us), text end
  local life = tonumber(until_us) - now
  return life > 0 and life or -1, text
end

-- About this many overrides are one page. A small hash is one page, however many it has.
local PAGE = '500'

-- Adds what holds of a page to a reply, drops what has expired, and answers the next page's cursor.
local function sweep(cursor, reply)
  local page = redis.call('HSCAN', table_key, cursor, 'COUNT', PAGE)
  local all, before = page[2], bytes
  for index = 1, #all, 2 do
    local name, value = all[index], all[index + 1]
    local life, text = life_of(value)
    if name ~= '' and life then
      if life < 0 then drop(name, value) else reply[#reply + 1] = name .. ' ' .. whole(life) .. ' ' .. text end
    end
  end
  if bytes ~= before then note() end
  return page[1]
end

if op == 'load' then
  local known, cursor = string.match(rest, '^(%d+) (%d+)$')
  if not known then return redis.error_reply('ERR tidegate: malformed load') end
  if cursor == '0' and tonumber(known) == version then return { now, version, -1 } end
  local reply = { now, version, 0 }
  local next_cursor = sweep(cursor, reply)
  reply[3] = #reply - 3
  reply[#reply + 1] = next_cursor
  return reply
end

if op == 'sweep' then return { now, sweep(rest, {}) } end

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
  local old = redis.call('HGET', table_key, name)
  local count = redis.call('HLEN', table_key) - (version > 0 and 1 or 0) - (old and 1 or 0)
  local rest_bytes = bytes - (old and size(name, old) or 0)
  if count < tonumber(entries_max) and rest_bytes + size(name, value) <= tonumber(bytes_max) then
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
