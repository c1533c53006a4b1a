-- What the other files share. All of them together are one script, one constant text: nothing in it is made from
-- input.
--
-- Numbers are integers in doubles, at most 2^53, where they are exact. So division and remainder go through fmod
-- (Lua's own % and a floor of a quotient both round), and text through %.0f (.. and tostring keep 14 digits). What is
-- passed to Redis goes through `digits`: some versions write a large number as 1e+16, which is no integer to a command.
-- Instants are µs since the Unix epoch, spans µs. Every state has a time to live: until it says nothing, and a
-- margin.
local call, pcall = redis.call, pcall
local fmod, floor, max, min = math.fmod, math.floor, math.max, math.min
local format, gmatch, concat = string.format, string.gmatch, table.concat
local EXACT = 9007199254740992

local function div(a, b)
  return (a - fmod(a, b)) / b
end

local function div_up(a, b)
  local rest = fmod(a, b)
  return rest > 0 and (a - rest) / b + 1 or a / b
end

-- A whole number from 0 to `most`, or nil: `nan` and `1e400` pass tonumber.
local function whole(text, most)
  local n = tonumber(text)
  if n and n >= 0 and n <= most and n == floor(n) then return n end
end

-- A number of an ask.
local function integer(text)
  return whole(text, EXACT) or error('ERR tidegate: expected a whole number up to 2^53, got ' .. tostring(text), 0)
end

-- A number as Redis reads it.
local function digits(number)
  return format('%.0f', number)
end

local now, margin_ms

-- How long to keep what says nothing any more from `end_us` on. A burst of centuries ends after 2^53 µs, where numbers
-- are rounded and a quotient need not be whole. 2^53 ms are 285,000 years, and Redis can still add them to its time.
local function ttl_ms(end_us)
  return digits(min(math.ceil(max(0, end_us - now) / 1000) + margin_ms, EXACT))
end

-- How many elements of lists and sets the asks of one call may still go through one by one: the bound on the work of a
-- call, besides its number of keys. What is left over stays as it is: no caller gains by it, and a later ask goes on.
local steps_left = 1000

-- States that are one string: read once and written once per call, however many asks are about them. Each is a table
-- with `known` (false: there is none), `dirty` (to be written) and `write`, by key. Made with all their fields at once:
-- a table that grows is made anew each time. Here only once it is known to be sound: the next ask would believe it.
local strings = {}

local function malformed(text)
  error('WRONGTYPE tidegate: the key holds something else: ' .. string.sub(tostring(text), 1, 40), 0)
end

-- A number of a state: a bad one is the fault of another program that uses the key.
local function stored(text)
  return whole(text, EXACT) or malformed(text)
end

-- One entry per algorithm: `read` its numbers from an ask, `decide` without writing, `apply` what was decided,
-- `refund`, `reset`; for leases `term`, how long one may live and whether it can come back, and `give_back`. `decide`
-- answers remaining, retry (0 admitted, -1 never), reset, and the change: nil for none.
--
-- A script runs from its first line each time it is called, and to make all functions of all algorithms took longer
-- than a check. So the files between one.lua and check.lua are the body of one function, define(name), that makes those
-- of one name when they are first needed.
local algorithms = {}

