import type { RecordId } from "../../../core/ledger/record.js";
import type { AuditEntry, AuditedEntry } from "../../../core/store/store.js";
import type { Connection } from "../connection/connection.js";
import type { Layout } from "../layout.js";
import { askScript, type ScriptResult } from "../scripts/call.js";
import { forEachKey } from "../scripts/script.js";

/** Keeps the newest thousand audit entries of a key. Does not create a log for a record that was already purged. */
const appending = forEachKey(
  `
  local head, row = split(key)
  if call('EXISTS', key) == 1 then
    call('RPUSH', head .. 'u:' .. row, at .. ARGV[p])
    call('LTRIM', head .. 'u:' .. row, -1000, -1)
  end
  p = p + 1
  answers[i + 1] = 1`,
  100,
);

const reading = forEachKey(
  `
  answers[i + 1] = call('LRANGE', key, -ARGV[p], -1)
  p = p + 1`,
  1,
);

export async function appendAudit(connection: Connection, layout: Layout, entries: readonly AuditEntry[]): Promise<void> {
  const items = entries.map(({ owner, answer, attempt, ...id }) => ({
    key: layout.recordOf(id),
    args: [JSON.stringify([owner, answer, attempt])],
    also: [layout.partOf(id, "u")],
  }));
  await askScript(connection, appending, items, { what: "an audit entry" });
}

export async function readAudit(connection: Connection, layout: Layout, { scope, key }: RecordId, limit: number): Promise<AuditedEntry[]> {
  const item = { key: layout.partOf({ scope, key }, "u"), args: [String(limit)] };
  const [result] = await askScript(connection, reading, [item], { what: "a read" });
  return ((result as ScriptResult).reply as string[]).map((text) => {
    const entry = text.indexOf("[");
    const [owner, answer, attempt] = JSON.parse(text.slice(entry)) as [string, AuditEntry["answer"], number];
    return { scope, key, owner, answer, attempt, at: Number(text.slice(0, entry)) };
  });
}
