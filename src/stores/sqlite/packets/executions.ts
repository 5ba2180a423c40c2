import { type ExecutionNote, notesMax } from "../../../core/packets/packet.js";
import type { ExecutionChange, ExecutionRow, ExecutionSums } from "../../../core/packets/rules/table.js";
import { attributeText } from "../../../core/values/attributes.js";
import { type FoundLabels, labelsIn } from "../../shared/execution-labels.js";
import type { Prepared } from "../connection/prepared.js";
import type { SqliteValue } from "../driver.js";
import { text } from "../runs/row.js";

export const selectedExecution = `no, flow, entry, input, key, open, duplicates, dead, created_at AS "createdAt", ended_at AS "endedAt",
  outputs, retention_ms AS "retentionMs", scope, attributes`;
const select = `SELECT ${selectedExecution} FROM onceflow_executions WHERE no = ?`;
/**
 * `stays`: whether the execution has parts or kept packets. If it has none, no DELETE is run: a DELETE that finds nothing still
 * opens every index for writing.
 */
const selectSums = `SELECT e.no, e.flow, e.open, e.duplicates, e.dead, e.ended_at AS "endedAt", e.outputs, e.retention_ms AS "retentionMs",
  EXISTS (SELECT 1 FROM onceflow_packets p WHERE p.execution = e.no AND p.state IN ('part', 'kept') AND p.state IN ('part', 'kept', 'dead')) AS stays
  FROM onceflow_executions e WHERE e.no = ?`;
const insert = `INSERT INTO onceflow_executions
  (no, flow, entry, key, open, duplicates, dead, created_at, ended_at, retention_ms, expires_at, outputs, input)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
/** For an execution with open packets that has no duplicates, dead letters or outputs and has not ended. */
const insertOpen = `INSERT INTO onceflow_executions (no, flow, entry, key, open, duplicates, dead, created_at, retention_ms, input)
  VALUES (?, ?, ?, ?, ?, 0, 0, ?, ?, ?)`;
/** Only for an execution that has them: other inserts bind fewer values. */
const label = "UPDATE onceflow_executions SET scope = ?, attributes = ? WHERE no = ?";
const insertAttribute =
  "INSERT OR IGNORE INTO onceflow_execution_attributes (name, value, created_at, execution, scope) VALUES (?, ?, ?, ?, ?)";
const change = "UPDATE onceflow_executions SET open = ?, duplicates = ?, dead = ?, ended_at = ?, expires_at = ?, outputs = ? WHERE no = ?";
const insertNote = `INSERT INTO onceflow_notes (execution, at, kind, queue, packet, about)
  SELECT ?, ?, ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM onceflow_executions WHERE no = ?)
  AND (SELECT count(*) FROM onceflow_notes WHERE execution = ?) < ${notesMax}`;

export function readExecution(sql: Prepared, no: number): ExecutionRow | undefined {
  const row = sql(select).get(no);
  return row === undefined ? undefined : toExecution(row);
}

export function toExecution(found: unknown): ExecutionRow {
  const row = found as Omit<ExecutionRow, "outputs" | "scope" | "attributes"> & FoundLabels & { readonly outputs: string | null };
  const { no, flow, entry, input, key, open, duplicates, dead, createdAt, endedAt, retentionMs } = row;
  const outputs = outputsIn(row.outputs);
  return { no, flow, entry, input, key, open, duplicates, dead, createdAt, endedAt, outputs, retentionMs, ...labelsIn(row) };
}

type FoundSums = Omit<ExecutionSums, "outputs"> & { readonly outputs: string | null; readonly stays: number };

/**
 * The executions that one transaction reads and changes. An execution that begins in the transaction is written at its end, with
 * its final sums, in one statement.
 */
export class Executions {
  readonly #sql: Prepared;
  readonly #begun = new Map<number, ExecutionRow>();

  constructor(sql: Prepared) {
    this.#sql = sql;
  }

  sums(no: number): (ExecutionSums & { readonly stays?: boolean }) | undefined {
    const begun = this.#begun.get(no);
    if (begun !== undefined) return begun;
    const row = this.#sql(selectSums).get(no) as FoundSums | undefined;
    if (row === undefined) return undefined;
    const { flow, open, duplicates, dead, endedAt, outputs, retentionMs, stays } = row;
    return { no, flow, open, duplicates, dead, endedAt, outputs: outputsIn(outputs), retentionMs, stays: stays !== 0 };
  }

  insert(row: ExecutionRow): void {
    this.#begun.set(row.no, row);
  }

  change({ no, retentionMs }: ExecutionSums, to: ExecutionChange): void {
    const begun = this.#begun.get(no);
    if (begun !== undefined) {
      this.#begun.set(no, { ...begun, ...to });
      return;
    }
    const { open, duplicates, dead, endedAt, outputs } = to;
    this.#sql(change).run(open, duplicates, dead, endedAt, expiryOf(endedAt, retentionMs), outputsOf(outputs), no);
  }

  note(execution: number, { at, kind, queue, packet, about }: ExecutionNote): void {
    // A note is inserted only if its execution is in the file.
    if (this.#begun.has(execution)) this.finish();
    this.#sql(insertNote).run(execution, at, kind, queue, packet, text(about), execution, execution);
  }

  /** Writes the new executions; called before COMMIT. */
  finish(): void {
    for (const row of this.#begun.values()) {
      insertExecution(this.#sql, row);
      if (row.scope !== undefined || row.attributes !== undefined) insertLabels(this.#sql, row);
    }
    this.#begun.clear();
  }
}

function insertExecution(sql: Prepared, row: ExecutionRow): void {
  const { no, flow, entry, key, open, duplicates, dead, createdAt, endedAt, retentionMs, outputs, input } = row;
  const names = [no, text(flow), text(entry), text(key), open] as const;
  if (duplicates === 0 && dead === 0 && endedAt === null && outputs.length === 0) {
    sql(insertOpen).run(...names, createdAt, retentionMs, text(input));
    return;
  }
  const end = [endedAt, retentionMs, expiryOf(endedAt, retentionMs), outputsOf(outputs)] as const;
  sql(insert).run(...names, duplicates, dead, createdAt, ...end, text(input));
}

function insertLabels(sql: Prepared, { no, scope: given, attributes, createdAt }: ExecutionRow): void {
  const scope = given ?? null;
  sql(label).run(text(scope), attributes === undefined ? null : text(JSON.stringify(attributes)), no);
  for (const [name, value] of Object.entries(attributes ?? {}))
    sql(insertAttribute).run(text(name), text(attributeText(value)), createdAt, no, text(scope));
}

function outputsIn(outputs: string | null): string[] {
  return outputs === null ? [] : (JSON.parse(outputs) as string[]);
}

/** An execution that has not ended does not expire. */
function expiryOf(endedAt: number | null, retentionMs: number | null): SqliteValue {
  return endedAt === null || retentionMs === null ? null : endedAt + retentionMs;
}

function outputsOf(outputs: readonly string[]): SqliteValue {
  return outputs.length === 0 ? null : JSON.stringify(outputs);
}
