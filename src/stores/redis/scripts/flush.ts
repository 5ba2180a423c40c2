import { prologue } from "./record.js";

/** A longer outcome is stored in its own key: one long value would make Redis store the whole hash in a larger format. */
export const shortBytesMax = 64;

/**
 * A flush: the conditions of core/ledger/decide.ts in Lua, for any mixture of operations. Redis runs scripts one at a time, so what
 * a script has read does not change until it ends. The reply for each operation:
 *
 *   1              written
 *   <lease>        a renewal was written; the end of the lease
 *   {1, record}    written; the record as it was before
 *   {0, record}    not written; the record as it is
 *   0              not written; there is no record
 *
 * The record's hash is written last: if Redis refuses a write in the middle (because a slot of a Cluster is being moved), the keys
 * written before it have no effect without the hash, and the repeated script writes them again.
 */
export const flushScript = `${prologue}
local p = 2

local function begin(key)
  local owner, print, class, lease, retention, horizon, wait, over, progress =
    ARGV[p], ARGV[p + 1], ARGV[p + 2], ARGV[p + 3], ARGV[p + 4], ARGV[p + 5], ARGV[p + 6], ARGV[p + 7], ARGV[p + 8]
  p = p + 9
  local head, row = split(key)
  local set = {'HSET', key, 'o', owner, 'b', at, 'l', now + lease}
  local n, r = 8, nil
  if call('EXISTS', key) == 0 then
    call('ZADD', head .. 'names', 0, row)
  else
    r = read(key)
    local state, attempt, rev = r[2] or 'running', r[3] or '1', r[16] or '1'
    -- The same begin again, after a lost reply.
    if state == 'running' and r[1] == owner then return {0, r} end
    local gone = goneAt(r[2], r[9], r[10], r[11])
    local created
    if not (gone and now >= gone) then
      local lapsed = state == 'running' and now >= tonumber(r[8])
      local held = r[4] or '0'
      if held > class then class = held end
      if (r[5] and print ~= '' and r[5] ~= print) or not (state == 'free' or (lapsed and class <= '1')
          or ((lapsed or state == 'unknown') and class == '2' and over == attempt)) then
        return {0, r}
      end
      if r[5] then print = r[5] end
      if r[18] then progress = '=' .. r[18] end
      created = r[6] or r[7]
    end
    local verdict, ended = r[14] or state, r[9] or cjson.null
    if state == 'running' then verdict, ended = 'lapsed', r[8] end
    local log = head .. 'a:' .. row
    call('ZADD', log, attempt, cjson.encode({attempt, r[1], r[7], ended, verdict, r[15] or cjson.null}))
    call('ZREMRANGEBYRANK', log, 0, -1001)
    if r[17] then call('UNLINK', head .. 'o:' .. row) end
    if gone then call('ZREM', head .. 'over', row) end
    set[9], set[10], set[11], set[12], n = 'a', attempt + 1, 'i', rev + 1, 12
    if created then set[13], set[14], n = 'n', created, 14 end
  end
  if print ~= '' then set[n + 1], set[n + 2], n = 'f', print, n + 2 end
  if class ~= '0' then set[n + 1], set[n + 2], n = 'c', class, n + 2 end
  if retention ~= '' then set[n + 1], set[n + 2], n = 'r', retention, n + 2 end
  if horizon ~= '0' then set[n + 1], set[n + 2], n = 'h', horizon, n + 2 end
  if wait ~= '0' then set[n + 1], set[n + 2], n = 'w', wait, n + 2 end
  if progress ~= '' then set[n + 1], set[n + 2], n = 'p', string.sub(progress, 2), n + 2 end
  call(unpack(set))
  if not r then return 1 end
  -- What the attempt before had, and this one has not.
  local has = {}
  for f = 3, n, 2 do has[set[f]] = true end
  local old = {'HDEL', key, 's', 'e', 'k', 'v', 'm', 'y'}
  for _, field in ipairs({'n', 'f', 'c', 'r', 'h', 'w', 'p'}) do
    if not has[field] then old[#old + 1] = field end
  end
  call(unpack(old))
  return {1, r}
end

local function settle(key, byHand)
  local owner, attempt, to, outcome, forget, verdict, note, erase =
    ARGV[p], ARGV[p + 1], ARGV[p + 2], ARGV[p + 3], ARGV[p + 4], ARGV[p + 5], ARGV[p + 6], ARGV[p + 7]
  p = p + 8
  local r = call('HMGET', key, 'o', 's', 'a', 'l', 'r', 'h', 'i', 'p')
  if not r[1] then return 0 end
  local state = r[2] or 'running'
  local open = (r[3] or '1') == attempt
  local erased = erase == '1' and state ~= 'running' and not (r[1] == owner and state == to)
  if byHand then
    open = open and (erased or state == 'unknown' or (state == 'running' and now >= tonumber(r[4])))
  else
    open = open and r[1] == owner and (state == 'running' or (state == 'unknown' and to ~= 'unknown'))
  end
  if not open then return {0, read(key)} end
  local head, row = split(key)
  local set = {'HSET', key, 's', to, 'e', at, 'i', (r[7] or 1) + 1}
  local n = 8
  local kept = outcome ~= ''
  if kept then
    outcome = string.sub(outcome, 2)
    if #outcome > ${shortBytesMax} then
      call('SET', head .. 'o:' .. row, outcome)
      set[9], set[10], n = 'y', '1', 10
    else
      set[9], set[10], n = 'k', outcome, 10
    end
  end
  local gone = goneAt(to, now, r[5], r[6])
  if gone then call('ZADD', head .. 'over', kept and now + r[5] or gone, row) end
  if byHand then set[n + 1], set[n + 2], n = 'o', owner, n + 2 end
  if verdict ~= '' then set[n + 1], set[n + 2], n = 'v', verdict, n + 2 end
  if note ~= '' then set[n + 1], set[n + 2], n = 'm', string.sub(note, 2), n + 2 end
  call(unpack(set))
  if forget == '1' then call('HDEL', key, 'f') end
  if state ~= 'running' and note == '' then call('HDEL', key, 'm') end
  if r[8] and to ~= 'unknown' then call('HDEL', key, 'p') end
  if erased then
    local aside = kept and #outcome > ${shortBytesMax}
    if aside or not kept then call('HDEL', key, 'k') end
    if not aside then
      call('UNLINK', head .. 'o:' .. row)
      call('HDEL', key, 'y')
    end
  end
  return 1
end

local function renew(key)
  local owner, attempt, lease, progress = ARGV[p], ARGV[p + 1], ARGV[p + 2], ARGV[p + 3]
  p = p + 4
  local r = call('HMGET', key, 'o', 's', 'a', 'l', 'i')
  if not r[1] then return 0 end
  if r[2] or r[1] ~= owner or (r[3] or '1') ~= attempt then return {0, read(key)} end
  local till = string.format('%.0f', math.max(r[4], now + lease))
  -- At maxmemory Redis refuses a write that may need memory, unless the script has called a delete before, even one that
  -- deletes nothing. A lease must not be lost because the server is full; progress has to wait until there is room.
  if progress == '' then call('HDEL', key, '') end
  if progress ~= '' then call('HSET', key, 'p', string.sub(progress, 2)) end
  call('HSET', key, 'l', till, 'i', (r[5] or 1) + 1)
  return till
end

local answers = {at}
for i = 1, tonumber(ARGV[1]) do
  local verb, key = ARGV[p], KEYS[i]
  p = p + 1
  if verb == 'b' then answers[i + 1] = begin(key)
  elseif verb == 's' then answers[i + 1] = settle(key, false)
  elseif verb == 'r' then answers[i + 1] = renew(key)
  else answers[i + 1] = settle(key, true) end
end
return answers`;
