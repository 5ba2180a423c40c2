import { type RecordId, rowOf, stateAt } from "../../../core/ledger/record.js";
import type { ListQuery, Reading } from "../../../core/store/store.js";
import type { Connection } from "../connection/connection.js";
import type { Layout } from "../layout.js";
import { askScript } from "../scripts/call.js";
import { forEachKey } from "../scripts/script.js";
import { readRecords } from "./read.js";

/**
 * The next matching names of a shard: at most `count`, after checking at most `look` names. The first element of the reply is the last
 * name that was checked, or empty at the end of the shard. If a record is on the other side of a slot that is being moved, its name is
 * returned anyway: the records are read next, on either side.
 */
const paging = forEachKey(
  `
  local from, within, prefix, state, count, look = ARGV[p], ARGV[p + 1], ARGV[p + 2], ARGV[p + 3], tonumber(ARGV[p + 4]), tonumber(ARGV[p + 5])
  p = p + 6
  local head = split(key)
  local rows = call('ZRANGEBYLEX', key, from, within == '' and '+' or '[' .. within .. '\\255', 'LIMIT', 0, look)
  local found = {''}
  for n, row in ipairs(rows) do
    local nul = string.find(row, '\\0', 1, true)
    local ok = prefix == '' or string.sub(row, nul + 1, nul + #prefix) == prefix
    if ok and state ~= '' then
      local r = redis.pcall('HMGET', head .. 'r:' .. row, 's', 'l', 'c')
      local is = r[1] or 'running'
      if is == 'running' and r[2] and now >= tonumber(r[2]) and (r[3] or '0') >= '2' then is = 'unknown' end
      ok = not r[2] or is == state
    end
    if ok then found[#found + 1] = row end
    if (#found > count and n < #rows) or n == look then
      found[1] = row
      break
    end
  end
  answers[i + 1] = found`,
  8,
);

/** Number of names that one shard checks per round if not all of them match. */
const lookMax = 200;

/**
 * Lists records ordered by the bytes of scope and key. Each round reads the next names of every shard; the result is complete up to
 * the smallest of the shards' last names. So a page is read in rounds, and memory use is bounded by the page size.
 */
export async function listRecords(connection: Connection, layout: Layout, query: ListQuery): Promise<Reading[]> {
  const { scope, state, prefix = "", limit } = query;
  const within = scope === undefined ? "" : `${scope}\0${prefix}`;
  const found: Reading[] = [];
  let from: string | undefined = startOf(query, within);
  while (from !== undefined && found.length < limit) {
    const wanted = limit - found.length;
    const round = await nextNames(connection, layout, {
      from,
      within,
      prefix: scope === undefined ? prefix : "",
      state: state ?? "",
      wanted,
    });
    const names = round.names.slice(0, wanted);
    const readings = await readRecords(connection, layout, names.map(idOf));
    // Between the two round trips a record may have been purged, or may have changed its state.
    found.push(
      ...readings.filter((one): one is Reading => one !== undefined && (state === undefined || stateAt(one.record, one.now) === state)),
    );
    const last = names.length < round.names.length ? names.at(-1) : round.upTo;
    from = last === undefined ? undefined : `(${last}`;
  }
  return found;
}

interface Round {
  readonly from: string;
  readonly within: string;
  readonly prefix: string;
  readonly state: string;
  readonly wanted: number;
}

async function nextNames(connection: Connection, { heads }: Layout, { from, within, prefix, state, wanted }: Round) {
  const count = Math.ceil((wanted / heads.length) * 2) + 4;
  const look = prefix === "" && state === "" ? count : Math.max(count, lookMax);
  const args = [from, within, prefix, state, String(count), String(look)];
  const results = await askScript(
    connection,
    paging,
    heads.map((head) => ({ key: `${head}names`, args })),
    { what: "a listing" },
  );
  const names: Buffer[] = [];
  let upTo: Buffer | undefined;
  for (const { reply } of results) {
    const [end = "", ...found] = reply as string[];
    for (const name of found) names.push(Buffer.from(name));
    const last = end === "" ? undefined : Buffer.from(end);
    if (last !== undefined && (upTo === undefined || last.compare(upTo) < 0)) upTo = last;
  }
  const sure = names.filter((name) => upTo === undefined || name.compare(upTo) <= 0).sort(Buffer.compare);
  return { names: sure.map(String), upTo: upTo?.toString() };
}

/** The later of two starting points: after the previous page, and at the beginning of the scope and prefix. */
function startOf({ after }: ListQuery, within: string): string {
  const first = within === "" ? "-" : `[${within}`;
  if (after === undefined) return first;
  const row = rowOf(after);
  return within !== "" && Buffer.compare(Buffer.from(row), Buffer.from(within)) < 0 ? first : `(${row}`;
}

function idOf(row: string): RecordId {
  const nul = row.indexOf("\0");
  return { scope: row.slice(0, nul), key: row.slice(nul + 1) };
}
