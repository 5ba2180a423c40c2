import { prologue } from "./record-script.js";

/**
 * A flush: the conditions of core/decide.ts, in Lua, over any mixture of operations. A script runs alone, so what it has
 * read is true until it ends. Each operation is answered with
 *
 *   1              granted, and there is nothing to tell
 *   <lease>        granted, a renewal: until when
 *   {1, record}    granted; the record as it was before
 *   {0, record}    not written; the record as it is
 *   0              not written; there is no record
 *
 * The record's own hash is written last: should Redis refuse a write in the middle (a slot of a Cluster is on the move),
 * what was written before it is found again and means nothing by itself.
 */
export const flushScript = `${prologue}
local p = 2

local function begin(key)
  local owner, print, class, lease, retention, horizon, wait, over, progress =
    ARGV[p], ARGV[p + 1], ARGV[p + 2], ARGV[p + 3], ARGV[p + 4], ARGV[p + 5], ARGV[p + 6], ARGV[p + 7], ARGV[p + 8]
  p = p + 9
  local r = fields(key)
  local state = r[1]
  local attempt, rev, created = '1', '1', at
  local head, row = split(key)
  if state then
    -- The same begin again, after a lost reply.
    if state == 'running' and r[2] == owner then return {0, r} end
    if not (r[15] and now >= tonumber(r[15])) then
      if r[5] and print ~= '' and r[5] ~= print then return {0, whole(key, r)} end
      local lapsed = state == 'running' and now >= tonumber(r[8])
      if r[4] > class then class = r[4] end
      if not (state == 'free' or (lapsed and class <= '1')
          or ((lapsed or state == 'unknown') and class == '2' and over == r[3])) then
        return {0, whole(key, r)}
      end
      if r[5] then print = r[5] end
      if r[20] then progress = '=' .. r[20] end
      created = r[6]
    end
    attempt, rev = int(r[3] + 1), int(r[18] + 1)
    local verdict, ended = r[16] or state, r[9] or cjson.null
    if state == 'running' then verdict, ended = 'lapsed', r[8] end
    local log = head .. 'a:' .. row
    call('ZADD', log, r[3], cjson.encode({r[3], r[2], r[7], ended, verdict, r[17] or cjson.null}))
    call('ZREMRANGEBYRANK', log, 0, -1001)
    if r[19] then call('UNLINK', head .. 'o:' .. row) end
    if r[15] then call('ZREM', head .. 'over', row) end
  else
    call('ZADD', head .. 'names', 0, row)
  end
  local set = {'HSET', key, 's', 'running', 'o', owner, 'a', attempt, 'c', class, 'n', created, 'b', at, 'l', int(now + lease), 'i', rev}
  local n = #set
  if print ~= '' then set[n + 1], set[n + 2], n = 'f', print, n + 2 end
  if retention ~= '' then set[n + 1], set[n + 2], n = 'r', retention, n + 2 end
  if horizon ~= '0' then set[n + 1], set[n + 2], n = 'h', horizon, n + 2 end
  if wait ~= '0' then set[n + 1], set[n + 2], n = 'w', wait, n + 2 end
  if progress ~= '' then set[n + 1], set[n + 2], n = 'p', string.sub(progress, 2), n + 2 end
  call(unpack(set))
  if not state then return 1 end
  local gone = {'HDEL', key, 'e', 'k', 'x', 'g', 'v', 'm', 'y'}
  if print == '' then gone[#gone + 1] = 'f' end
  if retention == '' then gone[#gone + 1] = 'r' end
  if horizon == '0' then gone[#gone + 1] = 'h' end
  if wait == '0' then gone[#gone + 1] = 'w' end
  if progress == '' then gone[#gone + 1] = 'p' end
  call(unpack(gone))
  return {1, r}
end

local function settle(key, byHand)
  local owner, attempt, to, outcome, forget, verdict, note, erase =
    ARGV[p], ARGV[p + 1], ARGV[p + 2], ARGV[p + 3], ARGV[p + 4], ARGV[p + 5], ARGV[p + 6], ARGV[p + 7]
  p = p + 8
  local r = fields(key)
  local state = r[1]
  if not state then return 0 end
  local open = r[3] == attempt
  if byHand then
    local over = erase == '1' and state ~= 'running' and not (r[2] == owner and state == to)
    open = open and (over or state == 'unknown' or (state == 'running' and now >= tonumber(r[8])))
  else
    open = open and r[2] == owner and (state == 'running' or (state == 'unknown' and to ~= 'unknown'))
  end
  if not open then return {0, whole(key, r)} end
  local head, row = split(key)
  -- Erased: the outcome that was there.
  if r[19] then call('UNLINK', head .. 'o:' .. row) end
  if r[13] or r[19] then call('HDEL', key, 'k', 'y') end
  local set = {'HSET', key, 's', to, 'o', owner, 'e', at, 'i', int(r[18] + 1)}
  local n = #set
  local kept = outcome ~= ''
  if kept then
    outcome = string.sub(outcome, 2)
    -- One long value would cost the whole hash its compact form.
    if #outcome > 64 then
      call('SET', head .. 'o:' .. row, outcome)
      set[n + 1], set[n + 2], n = 'y', '1', n + 2
    else
      set[n + 1], set[n + 2], n = 'k', outcome, n + 2
    end
  end
  if to ~= 'unknown' and r[10] then
    local expires = now + r[10]
    local gone = expires + (r[11] or 0)
    call('ZADD', head .. 'over', int(kept and expires or gone), row)
    set[n + 1], set[n + 2], set[n + 3], set[n + 4], n = 'x', int(expires), 'g', int(gone), n + 4
  end
  if verdict ~= '' then set[n + 1], set[n + 2], n = 'v', verdict, n + 2 end
  if note ~= '' then set[n + 1], set[n + 2], n = 'm', string.sub(note, 2), n + 2 end
  call(unpack(set))
  if forget == '1' and r[5] then call('HDEL', key, 'f') end
  if to ~= 'unknown' and r[20] then call('HDEL', key, 'p') end
  if verdict == '' and r[16] then call('HDEL', key, 'v') end
  if note == '' and r[17] then call('HDEL', key, 'm') end
  return 1
end

local function renew(key)
  local owner, attempt, lease, progress = ARGV[p], ARGV[p + 1], ARGV[p + 2], ARGV[p + 3]
  p = p + 4
  local r = fields(key)
  if not r[1] then return 0 end
  if r[1] ~= 'running' or r[2] ~= owner or r[3] ~= attempt then return {0, whole(key, r)} end
  local till = int(math.max(r[8], now + lease))
  if progress ~= '' then call('HSET', key, 'p', string.sub(progress, 2)) end
  call('HSET', key, 'l', till, 'i', int(r[18] + 1))
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
