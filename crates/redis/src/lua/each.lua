-- Several limits in one step, each with a cost of its own: all are charged, or none. Twin: decide_each in
-- core/src/combine.rs.
--
-- Ask:   each:cost:…       one cost per limit; charges if every limit admits
--        look:cost:…       charges nothing, and answers as if it did
--        left:cost:…       charges nothing, as if the whole were refused
-- Reply: per limit remaining, retry, reset: charged if all admit; otherwise the refusals, and of the others what is left

if name == 'each' then
  function algorithms.each(ask, first_key)
    local costs = {}
    for cost in gmatch(ask.args, ':(%w+)') do
      costs[#costs + 1] = cost == 'inf' and math.huge or integer(cost)
    end
    if #costs ~= #ask then error('ERR tidegate: expected one cost per limit', 0) end
    local parts, admitted = {}, ask.op ~= 'left'
    for n = 1, #ask do
      local limit = ask[n]
      local state = limit.algorithm.load(KEYS[first_key + n - 1])
      local left, retry, reset, a, b, c = limit.algorithm.decide(limit, state, costs[n])
      parts[n] = { state = state, left = left, retry = retry, reset = reset, a = a, b = b, c = c }
      admitted = admitted and retry == 0
    end
    for n = 1, #ask do
      local limit, part = ask[n], parts[n]
      if not admitted then
        local left, retry, reset, a, b, c = limit.algorithm.decide(limit, part.state, 0)
        part.a, part.b, part.c = a, b, c
        if part.retry == 0 then part.left, part.retry, part.reset = left, retry, reset end
      end
    end
    -- Everything has been read and decided: from here on nothing can fail half way.
    for n = 1, #ask do
      local limit, part = ask[n], parts[n]
      reply(part.left)
      reply(part.retry)
      reply(part.reset)
      if part.a and ask.op == 'each' then
        limit.algorithm.apply(limit, part.state, KEYS[first_key + n - 1], part.a, part.b, part.c)
      end
    end
  end
end

