import type { AttemptEntry, RecordId, Verdict } from "../../../core/ledger/record.js";
import type { AttemptsQuery, Reading } from "../../../core/store/store.js";
import type { Connection } from "../connection/connection.js";
import type { Layout } from "../layout.js";
import { askScript, type ScriptResult } from "../scripts/call.js";
import { forEachKey } from "../scripts/script.js";
import { type Fields, toRecord } from "./record.js";

const reading = forEachKey(
  `
  local r = read(key)
  answers[i + 1] = r[1] and r or 0`,
  64,
);

const readingAttempts = forEachKey(
  `
  answers[i + 1] = call('ZRANGEBYSCORE', key, '(' .. ARGV[p], '+inf', 'LIMIT', 0, ARGV[p + 1])
  p = p + 2`,
  1,
);

/** Reads records in the order of `ids`; undefined for a record that does not exist. */
export async function readRecords(connection: Connection, layout: Layout, ids: readonly RecordId[]): Promise<(Reading | undefined)[]> {
  const items = ids.map((id) => ({ key: layout.recordOf(id), args: [], also: [layout.partOf(id, "o")] }));
  const results = await askScript(connection, reading, items, { what: "a read" });
  return results.map(({ now, reply }, i) =>
    Array.isArray(reply) ? { record: toRecord(ids[i] as RecordId, reply as Fields), now } : undefined,
  );
}

export async function readAttempts(connection: Connection, layout: Layout, query: AttemptsQuery): Promise<AttemptEntry[]> {
  const item = { key: layout.partOf(query, "a"), args: [String(query.afterAttempt), String(query.limit)] };
  const [result] = await askScript(connection, readingAttempts, [item], { what: "a read" });
  return ((result as ScriptResult).reply as string[]).map(toEntry);
}

function toEntry(text: string): AttemptEntry {
  const [attempt, owner, startedAt, endedAt, verdict, note] = JSON.parse(text) as [
    string,
    string,
    string,
    string | null,
    Verdict,
    string | null,
  ];
  return {
    attempt: Number(attempt),
    owner,
    startedAt: Number(startedAt),
    endedAt: endedAt === null ? null : Number(endedAt),
    verdict,
    note,
  };
}
