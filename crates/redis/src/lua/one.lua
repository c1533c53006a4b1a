-- One limit, as most asks have. Twin: Limit::decide in core/src/limit.rs, then State::apply.

-- The reply so far.
local out, filled = {}, 0

local function reply(value)
  filled = filled + 1
  out[filled] = value
end

-- What a cost takes of a limit. A product above 2^53 is above every ceiling.
local function multiplied(limit, cost)
  local factor = limit.factor
  if not factor then return cost end
  return cost > div(EXACT, factor) and math.huge or cost * factor
end

local function decide_one(limit, key, cost, writes)
  local algorithm = limit.algorithm
  local state = algorithm.load(key)
  local remaining, retry, reset, a, b, c = algorithm.decide(limit, state, multiplied(limit, cost))
  out[filled + 1], out[filled + 2], out[filled + 3] = remaining, retry, reset
  filled = filled + 3
  if not writes then return end
  local granted = a and algorithm.apply(limit, state, key, a, b, c)
  if limit.grants then reply(granted or 0) end
end

