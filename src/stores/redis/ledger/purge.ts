import type { PurgeQuery } from "../../../core/store/store.js";
import type { Connection } from "../connection/connection.js";
import type { Layout } from "../layout.js";
import { askScript, callScript, isOnBothSides } from "../scripts/call.js";
import { forEachKey } from "../scripts/script.js";
import { type AbandonedRecords, abandonedAt } from "./abandoned.js";

const what = "a purge";

const till = `
  local till = now
  if ARGV[p] ~= '' and tonumber(ARGV[p]) < now then till = tonumber(ARGV[p]) end`;

const counting = forEachKey(
  `${till}
  answers[i + 1] = call('ZCOUNT', key, '-inf', till)
  p = p + 1`,
  64,
);

const finding = forEachKey(
  `${till}
  answers[i + 1] = call('ZRANGEBYSCORE', key, '-inf', till, 'LIMIT', 0, ARGV[p + 1])
  p = p + 2`,
  16,
);

/**
 * Purges records. The index names candidates, and the record itself decides: settled records expire, and a running record may be
 * abandoned; an unknown record is never touched.
 *
 * Commands that need memory come after a delete: at `maxmemory` Redis refuses a write that may need memory, unless the
 * script has written before. So a purge can free memory when nothing else can be written.
 */
const purging = forEachKey(
  `${till}
  ${abandonedAt}
  local head, row = split(key)
  local over, purged = head .. 'over', 0
  local r = call('HMGET', key, 'o', 's', 'e', 'r', 'h', 'k', 'y', 'i', 'c', 'l')
  local gone = goneAt(r[2], r[3], r[4], r[5])
  local abandoned = abandonedAt(r[2], r[9], r[10], r[4], r[5])
  if not r[1] or (gone and gone <= till) or (abandoned and abandoned <= till) then
    call('UNLINK', head .. 'o:' .. row, head .. 'a:' .. row, head .. 'u:' .. row)
    call('DEL', key)
    call('ZREM', head .. 'names', row)
    call('ZREM', over, row)
    if r[1] then purged = 1 end
  elseif gone then
    local due = gone
    if r[6] or r[7] then
      local expired = r[3] + r[4]
      if expired <= till then
        if r[7] then call('UNLINK', head .. 'o:' .. row) end
        call('HDEL', key, 'k', 'y')
        call('HSET', key, 'i', (r[8] or 1) + 1)
        purged = 1
      else
        due = expired
      end
    end
    call('ZREM', over, row)
    call('ZADD', over, due, row)
  else
    call('ZREM', over, row)
  end
  p = p + 1
  answers[i + 1] = purged`,
  64,
);

interface PurgedStore {
  readonly connection: Connection;
  readonly layout: Layout;
  readonly abandoned: AbandonedRecords;
}

/** Purges expired records first, then abandoned records up to the limit. */
export async function purgeRecords(store: PurgedStore, { before, limit }: PurgeQuery): Promise<number> {
  const until = before === undefined ? "" : String(Math.floor(before));
  const over = await purgeRows(store, await overRows(store, until, limit), until);
  if (over >= limit) return over;
  return over + (await purgeRows(store, await store.abandoned.find(until, limit - over), until));
}

/** Two round trips: the number of expired records in each shard, then the names of as many as needed. */
async function overRows({ connection, layout }: PurgedStore, until: string, limit: number): Promise<string[]> {
  const indexes = rotated(layout.heads).map((head) => `${head}over`);
  const counts = await askScript(
    connection,
    counting,
    indexes.map((key) => ({ key, args: [until] })),
    { what },
  );
  let left = limit;
  const shares = indexes.flatMap((key, i) => {
    const share = Math.min(left, Number(counts[i]?.reply));
    left -= share;
    return share === 0 ? [] : [{ key, args: [until, String(share)] }];
  });
  return (await askScript(connection, finding, shares, { what })).flatMap(({ reply }) => reply as string[]);
}

async function purgeRows({ connection, layout }: PurgedStore, rows: readonly string[], until: string): Promise<number> {
  if (rows.length === 0) return 0;
  const items = rows.map((row) => ({ key: layout.recordOfRow(row), args: [until], also: layout.allBeside(row) }));
  const results = await callScript(connection, await connection.link(), purging, items, { what });
  // Records of a slot that is being moved are purged after the move. The others do not wait for them.
  return results.reduce((sum, one) => {
    if (one instanceof Error && !isOnBothSides(one)) throw one;
    return one instanceof Error ? sum : sum + Number(one.reply);
  }, 0);
}

/** Begins with a random shard: a shard that cannot be purged now must not use up the limit every time. */
function rotated(heads: readonly string[]): string[] {
  const first = Math.floor(Math.random() * heads.length);
  return [...heads.slice(first), ...heads.slice(0, first)];
}
