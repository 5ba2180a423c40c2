import { binaryColumns } from "./binary-array.js";
import { type Columns, type Scalar, unnest } from "./columns.js";
import { ask, type PacketConnection } from "./packet-ask.js";
import { recordColumns, recordValues } from "./packet-record.js";
import {
  changeColumns,
  changeValues,
  executionChangeColumns,
  executionChangeValues,
  executionColumns,
  executionValues,
  packetColumns,
  packetValues,
} from "./packet-row.js";
import type { PacketChanges } from "./packet-table.js";
import { tell } from "./packet-tell.js";

/** Somebody was faster: what was read is not what is there. */
export class Overtaken extends Error {}

interface Part {
  readonly name: string;
  readonly columns: Columns;
  readonly rows: readonly (readonly Scalar[])[];
  /** The statement over the rows `a`; `must` when each of them has to be done. */
  readonly write: (rows: string) => string;
  readonly must: boolean;
}

const noteColumns: Columns = [
  ["execution", "bigint"],
  ["at", "bigint"],
  ["kind", "text"],
  ["queue", "text"],
  ["packet", "bigint"],
  ["about", "text"],
];
const pastColumns: Columns = [
  ["scope", "text"],
  ["key", "text"],
  ["attempt", "bigint"],
  ["owner", "text"],
  ["started_at", "bigint"],
  ["ended_at", "bigint"],
  ["verdict", "text"],
  ["note", "text"],
];
const numbers: Columns = [["no", "bigint"]];

/**
 * Everything that has changed, in one statement: a data-modifying part for each kind of change that there is. No row is in two
 * of them. What had to be there and was not is an `Overtaken`: the transaction is to be rolled back.
 */
export async function write(connection: PacketConnection, changes: PacketChanges, claim?: number): Promise<void> {
  const parts = partsOf(changes, claim).filter(({ rows }) => rows.length > 0);
  if (parts.length === 0) return;
  let before = 0;
  const withs: string[] = [];
  const counts: string[] = [];
  const values: Buffer[] = [];
  for (const { name, columns, rows, write: written } of parts) {
    withs.push(`${name} AS (${written(unnest(columns, before))} RETURNING 1)`);
    counts.push(`'${name}', (SELECT count(*) FROM ${name})`);
    values.push(...binaryColumns(rows, columns));
    before += columns.length;
  }
  const tells = concernsOthers(changes);
  if (tells) counts.push(`'told', ${tell}::text`);
  const text = `WITH ${withs.join(",\n")}\nSELECT json_build_object(${counts.join(", ")})::text AS answer`;
  const name = `write-${claim === undefined ? "" : "claim-"}${parts.map((part) => part.name).join("-")}${tells ? "-tell" : ""}`;
  const done = await ask<Record<string, number>>(connection, { name, text }, values);
  const short = parts.find(({ name: part, rows, must }) => must && done[part] !== rows.length);
  if (short) throw new Overtaken(short.name);
}

/** Others can claim what nobody has now, and may wait for the end of an execution. */
function concernsOthers({ inserted, changed, ended }: PacketChanges): boolean {
  return ended.length > 0 || [...inserted, ...changed].some(({ owner, state }) => owner === null && state === "due");
}

function partsOf(changes: PacketChanges, claim: number | undefined): Part[] {
  const { removed, inserted, changed, begun, executions, ended, notes, records, past } = changes;
  const made = records.filter(({ was }) => was === 0);
  const again = records.filter(({ was }) => was !== 0);
  const moving: Columns = claim === undefined ? changeColumns : [...changeColumns, ["claim", "bigint"]];
  return [
    {
      ...{ name: "gone", columns: numbers, rows: removed.map((no) => [no]), must: true },
      write: (rows) => `DELETE FROM $schema.packets p USING ${rows} WHERE p.no = a.no`,
    },
    {
      ...{ name: "come", columns: packetColumns, rows: inserted.map(packetValues), must: true },
      write: (rows) => insert("packets", packetColumns, rows),
    },
    {
      ...{ name: "moved", columns: moving, must: true },
      rows: changed.map((row) => (claim === undefined ? changeValues(row) : [...changeValues(row), claim])),
      write: (rows) => update("packets", moving, rows),
    },
    {
      ...{ name: "kept", columns: numbers, rows: ended.map((no) => [no]), must: false },
      // Those that this transaction has itself are in the parts above.
      write: (rows) => `DELETE FROM $schema.packets p USING ${rows} WHERE p.execution = a.no AND p.state = 'kept'`,
    },
    {
      ...{ name: "begun", columns: executionColumns, rows: begun.map(executionValues), must: true },
      write: (rows) => insert("executions", executionColumns, rows),
    },
    {
      ...{ name: "counted", columns: executionChangeColumns, rows: executions.map(executionChangeValues), must: true },
      write: (rows) => update("executions", executionChangeColumns, rows),
    },
    {
      ...{ name: "noted", columns: noteColumns, must: true },
      rows: notes.map(({ execution, at, kind, queue, packet, about }) => [execution, at, kind, queue, packet, about]),
      write: (rows) => `${insert("notes", noteColumns, rows)} ORDER BY a.ord`,
    },
    {
      ...{ name: "keyed", columns: recordColumns, rows: made.map(recordValues), must: true },
      write: (rows) => `${insert("records", recordColumns.slice(0, -1), rows, "effect")} ON CONFLICT DO NOTHING`,
    },
    {
      ...{ name: "rekeyed", columns: recordColumns, rows: again.map(recordValues), must: true },
      write: (rows) => {
        const sets = recordColumns.slice(2, -1).map(([name]) => `${name} = a.${name}${name === "effect" ? "::$schema.effect" : ""}`);
        return `UPDATE $schema.records r SET ${sets.join(", ")} FROM ${rows} WHERE r.scope = a.scope AND r.key = a.key AND r.rev = a.was`;
      },
    },
    {
      ...{ name: "logged", columns: pastColumns, must: true },
      rows: past.map(({ scope, key, attempt, owner, startedAt, endedAt, verdict, note }) => {
        return [scope, key, attempt, owner, startedAt, endedAt, verdict, note];
      }),
      write: (rows) => insert("attempts", pastColumns, rows),
    },
  ];
}

function insert(table: string, columns: Columns, rows: string, enumerated?: string): string {
  const names = columns.map(([name]) => name);
  const values = names.map((name) => `a.${name}${name === enumerated ? `::$schema.${name}` : ""}`);
  return `INSERT INTO $schema.${table} (${names.join(", ")}) SELECT ${values.join(", ")} FROM ${rows}`;
}

function update(table: string, columns: Columns, rows: string): string {
  const sets = columns.slice(1).map(([name]) => `${name} = a.${name}`);
  return `UPDATE $schema.${table} t SET ${sets.join(", ")} FROM ${rows} WHERE t.no = a.no`;
}
