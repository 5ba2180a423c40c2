/**
 * What all scripts begin with: the server's time, whole milliseconds, and how a record is read.
 *
 * The fields of a record have names of one letter: memory is what Redis costs. What is absent is null, or 0 for `h` and
 * `w`. The order is that of `toRecord` in record.ts.
 *
 *   s state   o owner   a attempt   c effect class (0 to 3)   f fingerprint   n created   b started   l lease until
 *   e settled   r retention   h horizon   w reconcile after   k outcome   x expires   g gone   v verdict, where it is not
 *   the state   m note   i rev   y outcome is aside, under `o:`   p progress
 */
export const prologue = `
if redis.replicate_commands then redis.replicate_commands() end
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function int(n) return string.format('%.0f', n) end
local at = int(now)
local function split(key)
  local _, tag = string.find(key, '}:', 1, true)
  return string.sub(key, 1, tag), string.sub(key, tag + 3)
end
local function fields(key)
  return call('HMGET', key, 's', 'o', 'a', 'c', 'f', 'n', 'b', 'l', 'e', 'r', 'h', 'w', 'k', 'x', 'g', 'v', 'm', 'i', 'y', 'p')
end
local function whole(key, r)
  if r[19] then
    local head, row = split(key)
    r[13] = call('GET', head .. 'o:' .. row)
  end
  return r
end
`;
