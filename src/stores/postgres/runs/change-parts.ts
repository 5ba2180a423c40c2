import { type Chunk, sizeOf } from "../../../core/runs/chunk.js";
import { expiryOf } from "../../../core/runs/rules/expiry.js";
import { hasEnded, type RunRecord } from "../../../core/runs/run.js";
import type { LoadedRunTable, RunChanges } from "../../shared/loaded-run-table.js";
import { arrayLiteral, type Columns, type Scalar } from "../parameters/columns.js";
import { chunksMark } from "./notify.js";
import { storedKey } from "./send.js";

/** One kind of change: its rows, and the statement that writes them. */
export interface Part {
  readonly name: string;
  readonly columns: Columns;
  readonly rows: readonly (readonly (Scalar | Uint8Array)[])[];
  /** Returns the statement that writes the rows `a`. If the fence refuses, there are no rows. */
  readonly write: (rows: string) => string;
}

const entryColumns: Columns = [
  ["run", "text"],
  ["seq", "int"],
  ["epoch", "int"],
  ["at", "bigint"],
  ["events", "text"],
  ["closing", "boolean"],
];
const changedColumns: Columns = [
  ["id", "text"],
  ["status", "text"],
  ["output", "text"],
  ["trouble", "text"],
  ["owner", "text"],
  ["epoch", "int"],
  ["wake_at", "bigint"],
  ["mail", "int"],
  ["consumed", "int"],
  ["started_at", "bigint"],
  ["ended_at", "bigint"],
  ["expires_at", "bigint"],
  ["deaths", "int"],
  ["crashes", "int"],
  ["alone", "boolean"],
  ["avoid", "text"],
  ["avoid_until", "bigint"],
  ["unsettled", "int"],
  ["deadline_at", "bigint"],
  ["stop_at", "bigint"],
  ["attributes", "text"],
  ["error_name", "text"],
  ["error_code", "text"],
  ["hook_rev", "int"],
];
const runColumns: Columns = [
  ...changedColumns,
  ["workflow", "text"],
  ["input", "text"],
  ["fingerprint", "text"],
  ["parent", "text"],
  ["creator", "text"],
  ["created_at", "bigint"],
  ["retention_ms", "bigint"],
  ["scope", "text"],
];
const mailColumns: Columns = [
  ["run", "text"],
  ["seq", "int"],
  ["kind", "text"],
  ["about", "text"],
  ["payload", "text"],
  ["key", "text"],
  ["at", "bigint"],
];
const hookColumns: Columns = [
  ["token", "text"],
  ["run", "text"],
  ["about", "text"],
  ["metadata", "text"],
  ["created_at", "bigint"],
  ["scope", "text"],
];
const chunkColumns: Columns = [
  ["run", "text"],
  ["stream", "text"],
  ["place", "int"],
  ["writer", "text"],
  ["n", "int"],
  ["attempt", "int"],
  ["kind", "text"],
  ["size", "int"],
  ["value", "text"],
  ["bytes", "bytea"],
];
const voidColumns: Columns = [
  ["run", "text"],
  ["writer", "text"],
  ["attempt", "int"],
];
const tokenColumns: Columns = [
  ["run", "text"],
  ["token", "text"],
];
const idColumns: Columns = [["run", "text"]];
const withdrawnColumns: Columns = [
  ["run", "text"],
  ["seq", "int"],
  ["key", "text"],
];
const logColumns: Columns = [
  ["id", "text"],
  ["at", "bigint"],
  ["actor", "text"],
  ["action", "text"],
  ["subject", "text"],
  ["reason", "text"],
  ["detail", "text"],
];

/**
 * The journal entries, and for a run that ends without one a row without events: an append that began before the end, and does not lock
 * the run, finds its number used. An entry after the end replaces such a row, and if it reopens the run, the journal is no longer closed; if
 * any other row has its number, the append has lost the race.
 */
export function entriesPart(table: LoadedRunTable, { entries, inserted, changed }: RunChanges): Part {
  const isOver = (run: string) => hasEnded((table.run(run) as RunRecord).status);
  const ended = new Set([...inserted.map(({ id }) => id), ...changed.filter(({ to }) => to.endedAt !== undefined).map(({ id }) => id)]);
  const silent = [...ended].filter((id) => isOver(id) && !entries.some(({ run }) => run === id)).map((id) => table.run(id) as RunRecord);
  const names = entryColumns.map(([name]) => name).join(", ");
  return {
    ...{ name: "written", columns: entryColumns },
    rows: [
      ...entries.map(({ run, seq, epoch, at, events }) => [run, seq, epoch, at, events, isOver(run) || null]),
      ...silent.map(({ id, epoch }) => [id, (table.lastEntry(id)?.seq ?? 0) + 1, epoch, table.now(), null, true]),
    ],
    write: (rows) => `INSERT INTO $schema.journal AS j (${names}) SELECT ${names} FROM ${rows}
  ON CONFLICT (run, seq) DO UPDATE SET epoch = excluded.epoch, at = excluded.at, events = excluded.events,
    closing = excluded.closing WHERE j.events IS NULL RETURNING 1`,
  };
}

/** All other changes. No row is in two of them. */
export function otherParts(table: LoadedRunTable, changes: RunChanges): Part[] {
  const { inserted, mail, hooksRemoved, hooksCleared, hooksInserted, voids, chunksInserted, chunksReplaced } = changes;
  const { withdrawn, removed, logged } = changes;
  const made = new Set(hooksInserted.map(({ token }) => token));
  return [
    {
      ...{ name: "created", columns: runColumns, rows: inserted.map(({ id }) => newValues(table.run(id) as RunRecord, changes)) },
      write: (rows) => `${insert("runs", runColumns, rows)} ON CONFLICT DO NOTHING RETURNING id`,
    },
    { ...{ name: "changed", columns: changedColumns, rows: changedRows(table, changes) }, write: updateRuns },
    {
      ...{ name: "mailed", columns: mailColumns },
      rows: mail.map(({ run, seq, kind, about, payload, key, at }) => [run, seq, kind, about, payload, storedKey(key), at]),
      write: (rows) => insert("mail", mailColumns, rows),
    },
    {
      ...{ name: "dropped", columns: tokenColumns },
      rows: hooksRemoved.filter(({ token }) => !made.has(token)).map(({ run, token }) => [run, token]),
      write: (rows) => `DELETE FROM $schema.hooks h USING ${rows} WHERE h.token = a.token AND h.run = a.run`,
    },
    {
      ...{ name: "cleared", columns: idColumns, rows: hooksCleared.map((run) => [run]) },
      write: (rows) => `DELETE FROM $schema.hooks h USING ${rows} WHERE h.run = a.run`,
    },
    {
      ...{ name: "hooked", columns: hookColumns },
      rows: hooksInserted.map(({ token, run, about, metadata, createdAt, scope }) => [token, run, about, metadata, createdAt, scope]),
      // The run's own token can exist only if the same entry drops it first.
      write: (rows) => `${insert("hooks AS h", hookColumns, rows)} ON CONFLICT (token) DO UPDATE SET about = excluded.about,
    metadata = excluded.metadata, created_at = excluded.created_at WHERE h.run = excluded.run RETURNING token`,
    },
    {
      ...{ name: "replaced", columns: chunkColumns, rows: chunksReplaced.map(({ run, chunk }) => chunkValues(run, null, chunk)) },
      write: (rows) => `UPDATE $schema.chunks c SET attempt = a.attempt, kind = a.kind, size = a.size, value = a.value, bytes = a.bytes
  FROM ${rows} WHERE c.run = a.run AND c.writer = a.writer AND c.stream = a.stream AND c.n = a.n`,
    },
    {
      ...{ name: "voided", columns: voidColumns, rows: latest(voids).map(({ run, writer, attempt }) => [run, writer, attempt]) },
      // Not chunks that the same statement replaces: they are written after chunks became void.
      write: (rows) => `UPDATE $schema.chunks c SET attempt = a.attempt, kind = 'void', size = 0, value = NULL, bytes = NULL
  FROM ${rows} WHERE c.run = a.run AND c.writer = a.writer AND c.attempt < a.attempt${
    chunksReplaced.length === 0
      ? ""
      : " AND NOT EXISTS (SELECT 1 FROM replaced_rows r WHERE r.run = c.run AND r.writer = c.writer AND r.stream = c.stream AND r.n = c.n)"
  }`,
    },
    {
      ...{ name: "added", columns: chunkColumns, rows: chunksInserted.map(({ run, index, chunk }) => chunkValues(run, index, chunk)) },
      write: (rows) => insert("chunks", chunkColumns, rows),
    },
    {
      ...{ name: "withdrawn", columns: withdrawnColumns },
      rows: withdrawn.map(({ run, seq, key }) => [run, seq, storedKey(key)]),
      write: (rows) => `UPDATE $schema.mail m SET kind = 'withdrawn', payload = NULL, key = a.key FROM ${rows}
  WHERE m.run = a.run AND m.seq = a.seq`,
    },
    ...ownedTables.map(
      ([table, column]): Part => ({
        ...{ name: `removed_${table}`, columns: idColumns, rows: removed.map((run) => [run]) },
        write: (rows) => `DELETE FROM $schema.${table} t USING ${rows} WHERE t.${column} = a.run`,
      }),
    ),
    {
      ...{ name: "logged", columns: logColumns },
      rows: logged.map(({ id, actor, action, subject, reason, detail }) => [id, table.now(), actor, action, subject, reason, detail]),
      write: (rows) => `${insert("operator_log", logColumns, rows)} RETURNING no`,
    },
  ];
}

/** The tables with rows of a run, and the column with its id. */
const ownedTables = [
  ["runs", "id"],
  ["journal", "run"],
  ["mail", "run"],
  ["hooks", "run"],
  ["chunks", "run"],
] as const;

/** Notifications for other processes: runs that can be claimed, that ended or were removed, that have new mail, or whose streams have grown. */
export function notificationsOf(table: LoadedRunTable, { inserted, changed, removed, mail, grown }: RunChanges): string[] {
  const isDue = ({ wakeAt, owner, status }: RunRecord) => hasEnded(status) || (owner === null && wakeAt !== null && wakeAt <= table.now());
  const runs = [...inserted, ...changed].map(({ id }) => table.run(id) as RunRecord).filter(isDue);
  const ids = new Set([...runs.map(({ id }) => id), ...removed, ...mail.map(({ run }) => run)]);
  // A payload must be shorter than 8000 bytes; an empty one means that any run may have changed.
  const within = (id: string, max: number) => (Buffer.byteLength(id) < max ? id : "");
  return [...[...ids].map((id) => within(id, 8000)), ...[...grown].map((id) => `${chunksMark}${within(id, 7999)}`)];
}

function insert(into: string, columns: Columns, rows: string): string {
  const names = columns.map(([name]) => name);
  return `INSERT INTO $schema.${into} (${names.join(", ")}) SELECT ${names.map((name) => `a.${name}${casts[name] ?? ""}`).join(", ")} FROM ${rows}`;
}

/** Updates rows that were locked and read: writes all columns that can have changed. */
function updateRuns(rows: string): string {
  const sets = changedColumns.slice(1, -1).map(([name]) => `${name} = a.${name}${casts[name] ?? ""}`);
  return `UPDATE $schema.runs r SET ${sets.join(", ")}, hook_rev = r.hook_rev + a.hook_rev FROM ${rows} WHERE r.id = a.id`;
}

const casts: Readonly<Record<string, string>> = { status: "::$schema.run_status", avoid: "::text[]" };

/** Every change of hooks increases `hook_rev`, which mail to a token compares. */
function changedRows(table: LoadedRunTable, changes: RunChanges): Scalar[][] {
  const fresh = new Set(changes.inserted.map(({ id }) => id));
  const ids = [...changes.changed.map(({ id }) => id), ...[...changes.hooksInserted, ...changes.hooksRemoved].map(({ run }) => run)];
  return [...new Set(ids)].filter((id) => !fresh.has(id)).map((id) => changedValues(table.run(id) as RunRecord, changes));
}

function changedValues(run: RunRecord, { hooksInserted, hooksRemoved }: RunChanges): Scalar[] {
  const { id, status, output, trouble, owner, epoch, wakeAt, mail, consumed, startedAt, endedAt } = run;
  const { deaths, crashes, alone, avoid, avoidUntil, unsettled, deadlineAt, stopAt, attributes, errorName, errorCode } = run;
  const hooks = [...hooksInserted, ...hooksRemoved].filter((hook) => hook.run === id).length;
  return [
    ...[id, status, output, trouble, owner, epoch, wakeAt, mail, consumed, startedAt, endedAt, expiryOf(run)],
    ...[deaths, crashes, alone, avoid.length === 0 ? null : arrayLiteral(avoid), avoidUntil, unsettled, deadlineAt, stopAt],
    ...[attributes, errorName, errorCode, hooks],
  ];
}

function newValues(run: RunRecord, changes: RunChanges): Scalar[] {
  const { workflow, input, fingerprint, parent, creator, createdAt, retentionMs, scope } = run;
  return [...changedValues(run, changes), workflow, input, fingerprint, parent, creator, createdAt, retentionMs, scope];
}

function chunkValues(run: string, index: number | null, chunk: Chunk): (Scalar | Uint8Array)[] {
  const { stream, writer, n, attempt, kind, data } = chunk;
  const [value, bytes] = typeof data === "string" ? [data, null] : [null, data];
  return [run, stream, index, writer, n, attempt, kind, sizeOf(chunk), value, bytes];
}

/** Of several entries for one writer, only that of the latest attempt. */
function latest(voids: RunChanges["voids"]): RunChanges["voids"] {
  return voids.filter(
    (one, i) =>
      !voids.some(
        (other, j) =>
          other.run === one.run && other.writer === one.writer && (other.attempt > one.attempt || (other.attempt === one.attempt && j > i)),
      ),
  );
}
