-- Accepts a value for each item, if its ballot is the last one that was promised: one that this server does not know of it
-- has promised and forgotten, or never promised. ARGV: for each item its ballot, the value, and how long it has to last, in
-- ms. Replies for each item `a`, `r`, `f` for what is not ours, or `e` with the error of a write, which then was not made.
local out, accepted = {now, marker}, {}
for i = 3, #KEYS do
  local before = redis.pcall('HGET', KEYS[i], 'p')
  if type(before) == 'table' then
    out[i] = {'f', before.err or ''}
  elseif before == ARGV[3 * i - 7] then
    out[i] = {'a'}
    accepted[#accepted + 1] = i
  else
    out[i] = {'r', before or ''}
  end
end
for _, i in ipairs(accepted) do
  local written = redis.pcall('HSET', KEYS[i], 'a', ARGV[3 * i - 7], 'v', ARGV[3 * i - 6])
  if type(written) == 'table' and written.err then
    out[i] = {'e', written.err}
  else
    live_for(KEYS[i], tonumber(ARGV[3 * i - 5]))
  end
end
return out
