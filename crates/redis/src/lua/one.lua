-- One limit, as most asks have. Twin: Limit::decide in core/src/limit.rs, then State::apply.

-- The reply so far.
local out, filled = {}, 0

local function reply(value)
  filled = filled + 1
  out[filled] = value
end

local function decide_one(limit, key, cost, writes)
  local algorithm = limit.algorithm
  local state = algorithm.load(key)
  local remaining, retry, reset, a, b, c = algorithm.decide(limit, state, cost)
  out[filled + 1], out[filled + 2], out[filled + 3] = remaining, retry, reset
  filled = filled + 3
  if not writes then return end
  local granted = a and algorithm.apply(limit, state, key, a, b, c)
  if limit.grants then reply(granted or 0) end
end

