import type { Connection } from "../connection/connection.js";
import type { Layout } from "../layout.js";
import { askScript } from "../scripts/call.js";
import { forEachKey } from "../scripts/script.js";

/** Names of one shard that one purge looks through. No index finds abandoned records: every begin and settle would pay for it. */
const lookMax = 32;

/**
 * `abandonedAt` of core/ledger/record.ts: when a running record may be removed whose owner never came back. Only of the classes
 * 0 and 1, which any caller may execute again.
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

/** Finds running records that were abandoned, from where the purge before has ended. They are removed by the script that purges. */
export class AbandonedRecords {
  readonly #connection: Connection;
  readonly #layout: Layout;
  /** By shard: the last name that was looked at. Absent: begin with the first. */
  readonly #lookedTo = new Map<string, string>();

  constructor(connection: Connection, layout: Layout) {
    this.#connection = connection;
    this.#layout = layout;
  }

  /** The names of `limit` of them at most. A shard with more than fit is looked through again from the same name. */
  async find(until: string, limit: number): Promise<string[]> {
    const { heads } = this.#layout;
    const items = heads.map((head) => {
      const last = this.#lookedTo.get(head);
      return { key: `${head}names`, args: [until, last === undefined ? "-" : `(${last}`] };
    });
    const said = await askScript(this.#connection, seeking, items, { what: "a purge" });
    const found: string[] = [];
    for (const [i, head] of heads.entries()) {
      const [last = "", ...rows] = (said[i]?.reply ?? []) as string[];
      const isAll = rows.length <= limit - found.length;
      found.push(...rows.slice(0, limit - found.length));
      if (!isAll) continue;
      if (last === "") this.#lookedTo.delete(head);
      else this.#lookedTo.set(head, last);
    }
    return found;
  }
}
