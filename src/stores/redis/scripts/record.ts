/**
 * The beginning of all scripts: reads the server's time in whole milliseconds, and defines how to read a record.
 *
 * The fields of a record have one-letter names, and a field with its default value is left out, to save memory and time of Redis's
 * single thread. The default of each field:
 *
 *   o owner             always there              s state          running         a attempt          1
 *   b started           always there              n created        as b            i rev              1
 *   l lease until       always there              c effect class   0, of 0 to 3    f fingerprint      none
 *   r retention         forever                   h horizon        0               w reconcile after  0
 *   e settled           not yet                   k outcome        none, or aside  y is aside: `o:`   no
 *   v verdict           as the state              m note           none            p progress         none
 *
 * `expiresAt` is e + r, `goneAt` is e + r + h. The order is that of `toRecord` in ledger/record.ts.
 */
export const prologue = `
if redis.replicate_commands then redis.replicate_commands() end
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local at = string.format('%.0f', now)
local function split(key)
  local _, tag = string.find(key, '}:', 1, true)
  return string.sub(key, 1, tag), string.sub(key, tag + 3)
end
local function read(key)
  local r = call('HMGET', key, 'o', 's', 'a', 'c', 'f', 'n', 'b', 'l', 'e', 'r', 'h', 'w', 'k', 'v', 'm', 'i', 'y', 'p')
  if r[17] then
    local head, row = split(key)
    r[13] = call('GET', head .. 'o:' .. row)
  end
  return r
end
local function goneAt(state, settled, retention, horizon)
  if state and state ~= 'unknown' and retention then return settled + retention + (horizon or 0) end
end
`;
