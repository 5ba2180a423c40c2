import type { Connection } from "../connection/connection.js";
import type { Layout } from "../layout.js";
import { askScript } from "../scripts/call.js";
import { forEachKey } from "../scripts/script.js";

/**
 * Number of names per shard that one purge checks. There is no index of abandoned records: every begin and settle would have to
 * maintain it.
 */
const lookMax = 32;

/**
 * `abandonedAt` of core/ledger/record.ts in Lua: when a running record whose owner never returned may be removed. Only for the
 * effect classes 0 and 1, which may run again.
 */
export const abandonedAt = `
local function abandonedAt(state, class, leaseUntil, retention, horizon)
  if not state and leaseUntil and (class or '0') < '2' and retention then return leaseUntil + retention + (horizon or 0) end
end`;

const seeking = forEachKey(
  `${abandonedAt}
  local till, from = now, ARGV[p + 1]
  if ARGV[p] ~= '' and tonumber(ARGV[p]) < now then till = tonumber(ARGV[p]) end
  p = p + 2
  local head = split(key)
  local rows = call('ZRANGEBYLEX', key, from, '+', 'LIMIT', 0, ${lookMax})
  local found = { #rows < ${lookMax} and '' or rows[#rows] }
  for _, row in ipairs(rows) do
    local r = redis.pcall('HMGET', head .. 'r:' .. row, 's', 'c', 'l', 'r', 'h')
    local gone = abandonedAt(r[1], r[2], r[3], r[4], r[5])
    if gone and gone <= till then found[#found + 1] = row end
  end
  answers[i + 1] = found`,
  8,
);

/** Finds abandoned running records. Each purge continues where the previous one ended. The purge script removes them. */
export class AbandonedRecords {
  readonly #connection: Connection;
  readonly #layout: Layout;
  /** By shard: the last name that was checked. Absent: begin with the first. */
  readonly #lookedTo = new Map<string, string>();

  constructor(connection: Connection, layout: Layout) {
    this.#connection = connection;
    this.#layout = layout;
  }

  /** Returns at most `limit` names. If a shard has more, the next call begins at the same name. */
  async find(until: string, limit: number): Promise<string[]> {
    const { heads } = this.#layout;
    const items = heads.map((head) => {
      const last = this.#lookedTo.get(head);
      return { key: `${head}names`, args: [until, last === undefined ? "-" : `(${last}`] };
    });
    const results = await askScript(this.#connection, seeking, items, { what: "a purge" });
    const found: string[] = [];
    for (const [i, head] of heads.entries()) {
      const [last = "", ...rows] = (results[i]?.reply ?? []) as string[];
      const isAll = rows.length <= limit - found.length;
      found.push(...rows.slice(0, limit - found.length));
      if (!isAll) continue;
      if (last === "") this.#lookedTo.delete(head);
      else this.#lookedTo.set(head, last);
    }
    return found;
  }
}
