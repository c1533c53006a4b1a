-- Several limits, all or any. Twin: decide_many in core/src/combine.rs.

if name == 'many' then
  -- Whether an answer says more about the whole than the one before. Ties go to the first declared.
  local function binds_more(any, remaining, retry, old_remaining, old_retry)
    local allowed, old_allowed = retry == 0, old_retry == 0
    if allowed ~= old_allowed then return allowed == any end
    if allowed then
      if any then return remaining > old_remaining end
      return remaining < old_remaining
    end
    retry, old_retry = tonumber(retry), tonumber(old_retry)
    if retry == -1 then retry = math.huge end
    if old_retry == -1 then old_retry = math.huge end
    if any then return retry < old_retry end
    return retry > old_retry
  end

  -- Decides every limit of an ask, and applies what is to be written if `writes`: the charges, or where the whole is
  -- refused the repairs.
  function algorithms.many(ask, first_key, cost, writes)
    local changes, admitted = {}, 0
    local binding, remaining, retry, reset, checks_left
    for n = 1, #ask do
      local limit, key = ask[n], KEYS[first_key + n - 1]
      local state = limit.algorithm.load(key)
      local left, wait, full, a, b, c = limit.algorithm.decide(limit, state, multiplied(limit, cost))
      changes[n] = { state, a, b, c }
      if wait == 0 then admitted = admitted + 1 end
      -- What is left, in units of the cost.
      local units = limit.factor and div(left, limit.factor) or left
      if not binding or binds_more(ask.any, units, wait, checks_left, retry) then
        binding, remaining, retry, reset, checks_left = n - 1, left, wait, full, units
      end
    end
    reply(binding)
    reply(remaining)
    reply(retry)
    reply(reset)
    if not writes then return end
    local refused = not ask.any and admitted < #ask
    for n = 1, #ask do
      local limit, change = ask[n], changes[n]
      if refused then
        local _, _, _, a, b, c = limit.algorithm.decide(limit, change[1], 0)
        change[2], change[3], change[4] = a, b, c
      end
      local granted
      if change[2] then
        granted = limit.algorithm.apply(limit, change[1], KEYS[first_key + n - 1], change[2], change[3], change[4])
      end
      if limit.grants then reply(granted or 0) end
    end
  end
end

