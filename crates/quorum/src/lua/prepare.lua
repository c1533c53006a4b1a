-- Promises a ballot for each item: no lower one will be accepted. ARGV: 2 the ballot, 3 how long a promise has to last, in ms.
-- Replies for each item `p` with what was accepted, `r` with the higher ballot that was promised, `f` for what is not ours,
-- or `e` with the error of a write.
local ballot, px = ARGV[2], tonumber(ARGV[3])
local out, promised = {now, marker}, {}
for i = 3, #KEYS do
  local cell = redis.pcall('HMGET', KEYS[i], 'p', 'a', 'v')
  if cell.err then
    out[i] = {'f', cell.err}
  else
    local before = cell[1]
    if before and (#before ~= 40 or string.find(before, '%D')) then
      out[i] = {'f', 'no ballot'}
    elseif before and before >= ballot then
      out[i] = {'r', before}
    else
      out[i] = {'p', cell[2] or '', cell[3] or ''}
      promised[#promised + 1] = i
    end
  end
end
for _, i in ipairs(promised) do
  local written = redis.pcall('HSET', KEYS[i], 'p', ballot)
  if type(written) == 'table' and written.err then
    out[i] = {'e', written.err}
  else
    live_for(KEYS[i], px)
  end
end
return out
