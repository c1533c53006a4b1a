-- Concurrency: places held until they are released or their lease ends. Twins: core/src/algorithm/concurrency.rs and
-- state/permits.rs.
--
-- Ask:   permits,limit,lease
--        release:id cost permits,…       gives back the permit of this id, which holds `cost` places
--        renew:id cost permits,…         gives it a whole lease from now, if it is held
-- State: a sorted set of "id:cost" by the instant the lease ends, and two members of bookkeeping, whose scores are
--        not above 0 so that no range of instants meets them: "used" (minus all places held, the expired included)
--        and "next" (minus the next id)
-- Reply: the decision, then per such limit the id granted, or 0; for a release or a renewal 1 if the permit was held, or 0

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

  -- What has expired of a key, as far as a call may go through it, and the places of all these. The others count as held
  -- until a later ask comes to them. Read once per call: its time stands still.
  local expired_by_key = {}

  local function expired_permits(key)
    local expired = expired_by_key[key]
    if expired then return expired end
    expired = { members = call('ZRANGEBYSCORE', key, '(0', digits(now), 'LIMIT', 0, steps_left), places = 0 }
    for _, member in ipairs(expired.members) do expired.places = expired.places + cost_of(member) end
    expired.is_part = #expired.members == steps_left
    steps_left = steps_left - #expired.members
    expired_by_key[key] = expired
    return expired
  end

  local function view_permits(limit, key)
    local expired = expired_permits(key)
    local view = { used = book(key, 'used'), longest = now + limit.lease, expired = expired.places }
    if view.used < view.expired then malformed('more places than are held') end
    local last = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
    local ends = last[2] and tonumber(last[2]) or 0
    if ends > now then view.last = min(ends, view.longest) end
    if ends > 0 then cost_of(last[1]) end
    if ends > view.longest then
      view.repairs = call('ZRANGEBYSCORE', key, '(' .. digits(view.longest), '+inf', 'LIMIT', 0, steps_left)
      steps_left = steps_left - #view.repairs
      -- Read before anything is written: they may belong to another program.
      for _, member in ipairs(view.repairs) do cost_of(member) end
    elseif expired.is_part and #expired.members > 0 then
      -- More than one call takes away: a refusal goes on with it too.
      view.repairs = {}
    end
    return view
  end

  -- The end of the n-th permit of those that are not known to have expired, oldest first, if each holds one place.
  local function end_of_single(key, in_use, n)
    local members = call('ZCARD', key) - #expired_permits(key).members
    for _, name in ipairs({ 'used', 'next' }) do
      if call('ZSCORE', key, name) then members = members - 1 end
    end
    if members ~= in_use then return nil end
    local found = call('ZREVRANGE', key, members - n, members - n, 'WITHSCORES')
    return tonumber(found[2])
  end

  -- Oldest first, and so the first to end first. Where permits hold several places each, and are more than a call may go
  -- through, until the last one has ended.
  local function retry_permits(key, view, in_use, in_the_way)
    local from, step, missing = 0, 64, in_the_way
    while steps_left > 0 do
      local held = call('ZRANGEBYSCORE', key, '(' .. digits(now), '+inf', 'WITHSCORES', 'LIMIT', from, step)
      for n = 1, #held, 2 do
        missing = missing - cost_of(held[n])
        if missing <= 0 then return min(tonumber(held[n + 1]), view.longest) - now end
      end
      if #held == 0 then break end
      local single = from == 0 and end_of_single(key, in_use, in_the_way)
      if single then return max(1, min(single, view.longest) - now) end
      from, steps_left = from + step, max(0, steps_left - step)
    end
    if view.last then return view.last - now end
    -- What stands in the way has expired, and a later ask takes it away.
    return expired_permits(key).is_part and 1 or malformed('places that nobody holds')
  end

  local function write_permits(limit, key, view, id, cost)
    local expired = expired_permits(key)
    if #expired.members > 0 then
      call('ZREM', key, unpack(expired.members))
      expired_by_key[key] = { members = {}, places = 0, is_part = expired.is_part }
    end
    if view.repairs and #view.repairs > 0 then
      -- Granted by a clock that has since stepped back: no lease outlives its length.
      local longest, scores = digits(view.longest), {}
      for n, member in ipairs(view.repairs) do scores[2 * n - 1], scores[2 * n] = longest, member end
      call('ZADD', key, unpack(scores))
    end
    local used = view.used - view.expired + cost
    if cost > 0 then
      call('ZADD', key, digits(view.longest), member_of(id, cost), digits(-(id + 1)), 'next')
    end
    call('ZADD', key, digits(-used), 'used')
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
      local retry = cost > limit.limit and -1 or retry_permits(key, view, in_use, in_use + cost - limit.limit)
      return left, retry, reset, view.repairs and view or nil, 0, 0
    end,

    apply = function(limit, key, _, view, id, cost)
      write_permits(limit, key, view, id, cost)
      return cost > 0 and id or 0
    end,

    -- Whether it was held until now.
    release = function(key, id, cost)
      local member = member_of(id, cost)
      local ends, used = call('ZSCORE', key, member), book(key, 'used')
      if not ends then return false end
      call('ZREM', key, member)
      call('ZADD', key, digits(-(used - cost)), 'used')
      expired_by_key[key] = nil
      return tonumber(ends) > now
    end,

    -- Whether it is held.
    renew = function(limit, key, id, cost)
      local member = member_of(id, cost)
      local ends = call('ZSCORE', key, member)
      if not ends or tonumber(ends) <= now then return false end
      local view = view_permits(limit, key)
      write_permits(limit, key, view, 0, 0)
      call('ZADD', key, digits(view.longest), member)
      return true
    end,

    -- Places come back by release.
    refund = function() end,

    -- Fails as a reset would, and writes nothing.
    readable = function(key)
      call('ZSCORE', key, 'used')
    end,

    -- The next id stays, so that a holder from before cannot give back the place of one from after.
    reset = function(_, key)
      local next_id = call('ZSCORE', key, 'next')
      -- Freed in the background: it may be a million members.
      call('UNLINK', key)
      expired_by_key[key] = nil
      if not next_id then return end
      call('ZADD', key, 0, 'used', digits(tonumber(next_id)), 'next')
      call('PEXPIRE', key, ttl_ms(-tonumber(next_id)))
    end,
  }
end

