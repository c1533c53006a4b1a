-- Sliding window: counts in slots, the leaving one weighed by what is left of it. Twins:
-- core/src/algorithm/sliding_window.rs and state/slots.rs.
--
-- Ask:   slots,limit,buckets,width       a slot is `width` µs
-- State: "width newest c c …"            the index of the newest slot, and buckets + 1 counts, the newest last

if name == 'slots' then
  local function parse_slots(state, text)
    if string.find(text, '[^%d ]') then malformed(text) end
    local n = -2
    for number in gmatch(text, '%d+') do
      n = n + 1
      if n == -1 then
        state.width = stored(number)
      elseif n == 0 then
        state.newest = stored(number)
      else
        -- Only digits, and up to a thousand of them in one state: without a call for each.
        local count = tonumber(number)
        if count > EXACT then malformed(number) end
        state[n] = count
      end
    end
    if n < 2 or state.width == 0 then malformed(text) end
    state.len = n
  end

  local function slot(state, index)
    local age = state.newest - index
    if age < 0 or age >= state.len then return 0 end
    return state[state.len - age]
  end

  local function write_slots(key, state)
    local newest, most = nil, 0
    for n = 1, state.len do
      if state[n] > 0 then newest, most = n, max(most, state[n]) end
    end
    local counts = state
    if most >= 1e14 then
      -- More digits than concat writes.
      counts = {}
      for n = 1, state.len do counts[n] = digits(state[n]) end
    end
    local text = format('%.0f %.0f ', state.width, state.newest) .. concat(counts, ' ', 1, state.len)
    -- The slot at place n has the index newest - len + n, and has left len slots after it began.
    local end_us = newest and (state.newest + newest) * state.width or 0
    call('SET', key, text, 'PX', ttl_ms(end_us))
  end

  -- What counts, as of one decision: the state (or nil), what a repair gathers into the current slot (or nil), the
  -- current slot, and how far into it.
  local function view_slots(limit, state)
    local elapsed = fmod(now, limit.width)
    local current = (now - elapsed) / limit.width
    if not state.known then return nil, nil, current, elapsed end
    if state.width ~= limit.width or state.len ~= limit.buckets + 1 then
      -- Another geometry: what still counted under the old one counts as of now.
      local counted = 0
      for age = 0, state.len - 1 do
        if (state.newest - age + state.len) * state.width > now then
          counted = counted + state[state.len - age]
        end
      end
      return nil, min(counted, limit.limit), current, elapsed
    end
    if state.newest > current + limit.buckets then
      local total = 0
      for n = 1, state.len do total = total + state[n] end
      return nil, min(total, limit.limit), current, elapsed
    end
    -- The clock stepped back a little: decide as of the newest slot's start.
    if state.newest > current then return state, nil, state.newest, 0 end
    return state, nil, current, elapsed
  end

  local function slot_of(state, gathered, current, index)
    if state then return slot(state, index) end
    return index == current and gathered or 0
  end

  -- Walks the coming slots, and in the first that can admit solves its line for the first µs.
  local function retry_slots(limit, state, gathered, current, full, cost)
    local target = (limit.limit - cost) * limit.width
    for index = current, current + limit.buckets + 1 do
      local leaving = slot_of(state, gathered, current, index - limit.buckets)
      if index > current then full = full - leaving end
      local room = target - full * limit.width
      if room >= 0 then
        local elapsed = leaving == 0 and 0 or max(0, limit.width - div(room, leaving))
        return max(0, index * limit.width + elapsed - now)
      end
    end
    return -1
  end

  -- Moves the counts on to slot `current`, or gathers them there.
  local function move_slots(limit, state, gathered, current)
    local len = limit.buckets + 1
    if gathered or not state.known then
      for n = 1, max(len, state.len) do state[n] = n <= len and 0 or nil end
      state[len] = gathered or 0
      state.width, state.newest, state.len = limit.width, current, len
    elseif current > state.newest then
      local gone = current - state.newest
      for n = 1, len do state[n] = n + gone <= len and state[n + gone] or 0 end
      state.newest = current
    end
    state.known, state.dirty = true, true
  end

  algorithms.slots = {
    load = function(key)
      local state = strings[key]
      if state then return state end
      local text = call('GET', key)
      state = { known = text and true, dirty = false, write = write_slots, width = 0, newest = 0, len = 0 }
      if text then parse_slots(state, text) end
      strings[key] = state
      return state
    end,

    read = function(limit, buckets, width)
      return { algorithm = algorithms.slots, limit = limit, buckets = buckets, width = width }
    end,

    decide = function(limit, known, cost)
      local state, gathered, current, elapsed = view_slots(limit, known)
      local width, full, newest = limit.width, 0, nil
      for index = current - limit.buckets + 1, current do
        local count = slot_of(state, gathered, current, index)
        full = full + count
        if count > 0 then newest = index end
      end
      local leaving = slot_of(state, gathered, current, current - limit.buckets)
      if not newest and leaving > 0 then newest = current - limit.buckets end
      local left = max(0, limit.limit * width - full * width - leaving * (width - elapsed))
      local admits = cost <= limit.limit and cost * width <= left
      local added = admits and cost or 0
      if added > 0 then newest = current end
      local reset = newest and max(0, (newest + limit.buckets + 1) * width - now) or 0
      local retry = 0
      if cost > limit.limit then
        retry = -1
      elseif not admits then
        retry = retry_slots(limit, state, gathered, current, full, cost)
      end
      local writes = added > 0 or gathered
      return div(left - added * width, width), retry, reset, writes and current or nil, added, gathered
    end,

    apply = function(limit, state, _, current, added, gathered)
      move_slots(limit, state, gathered, current)
      state[state.len] = state[state.len] + added
    end,

    -- The newest units first.
    refund = function(limit, state, _, amount)
      local _, gathered, current = view_slots(limit, state)
      move_slots(limit, state, gathered, current)
      for n = state.len, 1, -1 do
        local taken = min(amount, state[n])
        state[n] = state[n] - taken
        amount = amount - taken
      end
    end,

    -- A lease ends with the slot that pays for it.
    term = function(limit, known)
      local _, _, current = view_slots(limit, known)
      return max(0, (current + 1) * limit.width - now), current == div(now, limit.width)
    end,

    -- To the slot that paid for them, if the ring still has it.
    give_back = function(limit, state, _, back)
      local _, gathered, current = view_slots(limit, state)
      local slot = div(back.granted_at, limit.width)
      if gathered or slot > current or slot < current - limit.buckets then return end
      move_slots(limit, state, nil, current)
      local place = state.len - (state.newest - slot)
      state[place] = max(0, state[place] - back.units)
    end,
  }
end

