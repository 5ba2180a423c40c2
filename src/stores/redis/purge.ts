import type { PurgeQuery } from "../../core/store.js";
import type { Connection } from "./connection.js";
import type { Layout } from "./layout.js";
import { askScript } from "./run-script.js";
import { forEachKey } from "./scripts.js";

const counting = forEachKey(
  `
  local till = at
  if ARGV[p] ~= '' and tonumber(ARGV[p]) < now then till = ARGV[p] end
  answers[i + 1] = call('ZCOUNT', key, '-inf', till)
  p = p + 1`,
  64,
);

/**
 * The index says where to look, and the record whether it is so: only settled ones have an end, and what is running or
 * unknown is never touched. The record goes last but for the index, so that what is interrupted is found again.
 */
const purging = forEachKey(
  `
  local till = now
  if ARGV[p] ~= '' and tonumber(ARGV[p]) < now then till = tonumber(ARGV[p]) end
  local head, purged = split(key), 0
  for _, row in ipairs(call('ZRANGEBYSCORE', key, '-inf', till, 'LIMIT', 0, ARGV[p + 1])) do
    local record = head .. 'r:' .. row
    local r = call('HMGET', record, 'o', 's', 'e', 'r', 'h', 'k', 'y', 'i')
    local gone = goneAt(r[2], r[3], r[4], r[5])
    if not r[1] or (gone and gone <= till) then
      call('UNLINK', head .. 'o:' .. row, head .. 'a:' .. row, head .. 'u:' .. row)
      call('DEL', record)
      call('ZREM', head .. 'names', row)
      call('ZREM', key, row)
      if r[1] then purged = purged + 1 end
    elseif gone then
      if (r[6] or r[7]) and r[3] + r[4] <= till then
        if r[7] then call('UNLINK', head .. 'o:' .. row) end
        call('HSET', record, 'i', (r[8] or 1) + 1)
        call('HDEL', record, 'k', 'y')
        purged = purged + 1
      end
      call('ZADD', key, gone, row)
    else
      call('ZREM', key, row)
    end
  end
  p = p + 2
  answers[i + 1] = purged`,
  4,
);

/** Two trips: how much is over in each shard, and then as much of it as is wanted. */
export async function purgeRecords(connection: Connection, { heads }: Layout, { before, limit }: PurgeQuery): Promise<number> {
  const until = before === undefined ? "" : String(Math.floor(before));
  const what = "a purge";
  const counts = await askScript(
    connection,
    counting,
    heads.map((head) => ({ key: `${head}over`, args: [until] })),
    { what },
  );
  let left = limit;
  const items = heads.flatMap((head, shard) => {
    const share = Math.min(left, Number(counts[shard]?.reply));
    left -= share;
    return share === 0 ? [] : [{ key: `${head}over`, args: [until, String(share)] }];
  });
  const purged = await askScript(connection, purging, items, { what });
  return purged.reduce((sum, { reply }) => sum + Number(reply), 0);
}
