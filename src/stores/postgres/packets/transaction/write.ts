import { notesMax } from "../../../../core/packets/packet.js";
import type { PacketChanges } from "../../../shared/loaded-packet-table.js";
import { binaryColumns } from "../../parameters/binary-array.js";
import { type Columns, type Scalar, unnest } from "../../parameters/columns.js";
import { ask, type PacketConnection } from "../ask.js";
import { entryColumns, entryValues, insertEntries } from "../deliveries.js";
import { notify } from "../notify.js";
import {
  attributeColumns,
  attributeValues,
  changeColumns,
  changeValues,
  executionChangeColumns,
  executionChangeValues,
  executionColumns,
  executionValues,
  packetColumns,
  packetValues,
} from "../row.js";
import { recordColumns, recordValues } from "./record.js";

/** Another transaction changed a row after it was read: the transaction must be rolled back and retried. */
export class Overtaken extends Error {}

interface Part {
  readonly name: string;
  readonly columns: Columns;
  readonly rows: readonly (readonly Scalar[])[];
  /** Returns the statement that writes the rows `a`. */
  readonly write: (rows: string) => string;
  /** Not every row has to match. */
  readonly any?: true;
}

const noteColumns: Columns = [
  ["execution", "bigint"],
  ["at", "bigint"],
  ["kind", "text"],
  ["queue", "text"],
  ["packet", "bigint"],
  ["about", "text"],
];
/** Numbers the notes of each execution, after those that exist. */
const nth = `SELECT a.*, row_number() OVER (PARTITION BY a.execution ORDER BY a.ord)
  + (SELECT count(*) FROM $schema.notes n WHERE n.execution = a.execution) AS nth`;
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
 * Writes all changes in one statement, with a data-modifying part for each kind of change. No row is in two of them. The parts form
 * groups, so that there are few different statements to plan. Throws `Overtaken` if a row that must exist does not:
 * the transaction must be rolled back.
 */
export async function write(connection: PacketConnection, changes: PacketChanges, claim?: number): Promise<void> {
  const groups = Object.entries(groupsOf(changes, claim)).filter(([, parts]) => parts.some(({ rows }) => rows.length > 0));
  const parts = groups.flatMap(([, group]) => group);
  if (parts.length === 0) return;
  let before = 0;
  const withs: string[] = [];
  const answers: string[] = [];
  const values: (Buffer | string)[] = [];
  for (const { name, columns, rows, write: written } of parts) {
    withs.push(`${name} AS (${written(unnest(columns, before))} RETURNING 1)`);
    answers.push(`'${name}', (SELECT count(*) FROM ${name})`);
    values.push(...(rows.length === 0 ? columns.map(() => "{}") : binaryColumns(rows, columns)));
    before += columns.length;
  }
  const notifies = concernsOthers(changes);
  if (notifies) answers.push(`'notified', ${notify}::text`);
  const text = `WITH ${withs.join(",\n")}\nSELECT json_build_object(${answers.join(", ")})::text AS answer`;
  const name = ["write", claim === undefined ? "" : "claim", ...groups.map(([group]) => group), notifies ? "notify" : ""]
    .filter(Boolean)
    .join("-");
  const done = await ask<Record<string, number>>(connection, { name, text }, values);
  const short = parts.find((part) => !part.any && done[part.name] !== part.rows.length);
  if (short) throw new Overtaken(short.name);
}

/** Whether other processes must be notified: there are packets to claim, or an execution has ended. */
function concernsOthers({ inserted, changed, ended }: PacketChanges): boolean {
  return ended.length > 0 || [...inserted, ...changed].some(({ owner, state }) => owner === null && state === "due");
}

function groupsOf(changes: PacketChanges, claim: number | undefined): Record<string, Part[]> {
  const { removed, inserted, changed, begun, executions, ended, notes, entries, records, past } = changes;
  const made = records.filter(({ was }) => was === 0);
  const again = records.filter(({ was }) => was !== 0);
  const moving: Columns = claim === undefined ? changeColumns : [...changeColumns, ["claim", "bigint"]];
  const packets: Part[] = [
    {
      ...{ name: "gone", columns: numbers, rows: removed.map((no) => [no]) },
      write: (rows) => `DELETE FROM $schema.packets p USING ${rows} WHERE p.no = a.no`,
    },
    {
      ...{ name: "come", columns: packetColumns, rows: inserted.map(packetValues) },
      write: (rows) => insert("packets", packetColumns, rows),
    },
    {
      ...{ name: "moved", columns: moving },
      rows: changed.map((row) => (claim === undefined ? changeValues(row) : [...changeValues(row), claim])),
      write: (rows) => update("packets", moving, rows),
    },
  ];
  const counts: Part[] = [
    {
      ...{ name: "kept", columns: numbers, rows: ended.map((no) => [no]), any: true },
      // Kept packets that this transaction has loaded are in the parts above.
      write: (rows) => `DELETE FROM $schema.packets p USING ${rows} WHERE p.execution = a.no AND p.state = 'kept'`,
    },
    {
      ...{ name: "begun", columns: executionColumns, rows: begun.map(executionValues) },
      write: (rows) => insert("executions", executionColumns, rows),
    },
    {
      ...{ name: "counted", columns: executionChangeColumns, rows: executions.map(executionChangeValues) },
      write: (rows) => update("executions", executionChangeColumns, rows),
    },
    {
      ...{ name: "noted", columns: noteColumns, any: true },
      rows: notes.map(({ execution, at, kind, queue, packet, about }) => [execution, at, kind, queue, packet, about]),
      write: (rows) => `${insert("notes", noteColumns, `(${nth} FROM ${rows}) a`)} WHERE a.nth <= ${notesMax} ORDER BY a.ord`,
    },
  ];
  const keys: Part[] = [
    {
      ...{ name: "keyed", columns: recordColumns, rows: made.map(recordValues) },
      write: (rows) => `${insert("records", recordColumns.slice(0, -1), rows, "effect")} ON CONFLICT DO NOTHING`,
    },
    {
      ...{ name: "rekeyed", columns: recordColumns, rows: again.map(recordValues) },
      write: (rows) => {
        const sets = recordColumns.slice(2, -1).map(([name]) => `${name} = a.${name}${name === "effect" ? "::$schema.effect" : ""}`);
        return `UPDATE $schema.records r SET ${sets.join(", ")} FROM ${rows} WHERE r.scope = a.scope AND r.key = a.key AND r.rev = a.was`;
      },
    },
    {
      ...{ name: "logged", columns: pastColumns },
      rows: past.map(({ scope, key, attempt, owner, startedAt, endedAt, verdict, note }) => {
        return [scope, key, attempt, owner, startedAt, endedAt, verdict, note];
      }),
      write: (rows) => insert("attempts", pastColumns, rows),
    },
  ];
  const found: Part[] = [
    {
      ...{ name: "found", columns: attributeColumns, rows: begun.flatMap(attributeValues) },
      write: (rows) => insert("execution_attributes", attributeColumns, rows),
    },
  ];
  const history: Part[] = [
    { ...{ name: "entered", columns: entryColumns, any: true }, rows: entries.map(entryValues), write: insertEntries },
  ];
  return { packets, counts, keys, found, history };
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
