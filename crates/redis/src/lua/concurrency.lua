-- Concurrency: places held until they are released or their lease ends. Twins: core/src/algorithm/concurrency.rs and
-- state/permits.rs.
--
-- Ask:   permits,limit,lease
--        release:id cost permits,…       gives back the permit of this id, which holds `cost` places
-- State: a sorted set of "id:cost" by the instant the lease ends, and two members of bookkeeping, whose scores are
--        not above 0 so that no range of instants meets them: "used" (minus all places held, the expired included)
--        and "next" (minus the next id)
-- Reply: the decision, then per such limit the id granted, or 0

if name == 'permits' then
  local function book(key, member)
    local score = call('ZSCORE', key, member)
    return score and stored(-tonumber(score)) or 0
  end

  local function cost_of(member)
    return stored(string.match(member, '^%d+:(%d+)$') or malformed(member))
  end

  local function member_of(id, cost)
    return format('%016.0f:%.0f', id, cost)
  end

  local function view_permits(limit, key)
    local view = { used = book(key, 'used'), longest = now + limit.lease, expired = 0 }
    for _, member in ipairs(call('ZRANGEBYSCORE', key, '(0', now)) do
      view.expired = view.expired + cost_of(member)
    end
    if view.used < view.expired then malformed('more places than are held') end
    local last = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
    local ends = last[2] and tonumber(last[2]) or 0
    if ends > now then view.last = min(ends, view.longest) end
    if ends > 0 then cost_of(last[1]) end
    if ends > view.longest then
      view.repairs = call('ZRANGEBYSCORE', key, '(' .. format('%.0f', view.longest), '+inf')
      -- Read before anything is written: they may belong to another program.
      for _, member in ipairs(view.repairs) do cost_of(member) end
    end
    return view
  end

  -- Oldest first, and so the first to end first.
  local function retry_permits(key, view, in_the_way)
    local from, step = 0, 64
    while true do
      local held = call('ZRANGEBYSCORE', key, '(' .. format('%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', from, step)
      for n = 1, #held, 2 do
        in_the_way = in_the_way - cost_of(held[n])
        if in_the_way <= 0 then return min(tonumber(held[n + 1]), view.longest) - now end
      end
      if #held == 0 then return view.last and view.last - now or malformed('places that nobody holds') end
      from = from + step
    end
  end

  local function write_permits(limit, key, view, id, cost)
    call('ZREMRANGEBYSCORE', key, '(0', now)
    if view.repairs then
      -- Granted by a clock that has since stepped back: no lease outlives its length.
      for _, member in ipairs(view.repairs) do call('ZADD', key, view.longest, member) end
    end
    local used = view.used - view.expired + cost
    if cost > 0 then
      call('ZADD', key, view.longest, member_of(id, cost), -(id + 1), 'next')
    end
    call('ZADD', key, -used, 'used')
    call('PEXPIRE', key, ttl_ms(max(view.longest, book(key, 'next'))))
  end

  algorithms.permits = {
    load = function(key)
      return key
    end,

    read = function(limit, lease)
      return { algorithm = algorithms.permits, limit = limit, lease = lease, grants = true }
    end,

    decide = function(limit, key, cost)
      local view = view_permits(limit, key)
      local in_use = view.used - view.expired
      local left = max(0, limit.limit - in_use)
      local reset = view.last and view.last - now or 0
      if cost <= left then
        local id = max(book(key, 'next'), now)
        local writes = cost > 0 or view.repairs
        return left - cost, 0, cost > 0 and limit.lease or reset, writes and view or nil, id, cost
      end
      local retry = cost > limit.limit and -1 or retry_permits(key, view, in_use + cost - limit.limit)
      return left, retry, reset, view.repairs and view or nil, 0, 0
    end,

    apply = function(limit, key, _, view, id, cost)
      write_permits(limit, key, view, id, cost)
      return cost > 0 and id or 0
    end,

    release = function(key, id, cost)
      if call('ZREM', key, member_of(id, cost)) == 1 then
        call('ZADD', key, -(book(key, 'used') - cost), 'used')
      end
    end,

    -- Places come back by release.
    refund = function() end,

    -- Fails as a reset would, and writes nothing.
    readable = function(key)
      call('ZSCORE', key, 'used')
    end,

    -- The next id stays, so that a holder from before cannot give back the place of one from after.
    reset = function(_, key)
      if call('EXISTS', key) == 1 then
        call('ZREMRANGEBYSCORE', key, '(0', '+inf')
        call('ZADD', key, 0, 'used')
      end
    end,
  }
end

