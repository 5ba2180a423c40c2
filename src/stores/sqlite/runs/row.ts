import { StoreRefusedError } from "../../../core/errors/errors.js";
import type { RunUpdate } from "../../../core/runs/rules/table.js";
import type { HookRecord, JournalEntry, Mail, RunRecord } from "../../../core/runs/run.js";
import type { Prepared } from "../connection/prepared.js";
import type { SqliteValue } from "../driver.js";
import { clockSql } from "../ledger/row.js";

/**
 * A longer input is stored in the journal as entry 0, where it is written once: every renewal rewrites the whole row of a run. Queries for
 * entries begin at 1.
 */
export const inputLengthMax = 1000;

const columns = {
  id: "id",
  workflow: "workflow",
  status: "status",
  fingerprint: "fingerprint",
  output: "output",
  trouble: "trouble",
  owner: "owner",
  epoch: "epoch",
  wake_at: "wakeAt",
  mail: "mail",
  consumed: "consumed",
  parent: "parent",
  creator: "creator",
  created_at: "createdAt",
  started_at: "startedAt",
  ended_at: "endedAt",
  retention_ms: "retentionMs",
  deaths: "deaths",
  crashes: "crashes",
  alone: "alone",
  avoid: "avoid",
  avoid_until: "avoidUntil",
  unsettled: "unsettled",
  deadline_at: "deadlineAt",
  stop_at: "stopAt",
  scope: "scope",
  attributes: "attributes",
  error_name: "errorName",
  error_code: "errorCode",
} as const satisfies Record<string, keyof RunRecord>;

/** Returns rows of `onceflow_runs AS r` with the record's member names. */
export const selectedRun = Object.entries(columns)
  .map(([column, member]) => `r.${column} AS "${member}"`)
  .concat("coalesce(r.input, (SELECT l.events FROM onceflow_journal l WHERE l.run = r.no AND l.seq = 0)) AS input")
  .join(", ");

const notInState = ["workflow", "fingerprint", "output", "trouble", "avoid", "avoidUntil", "scope", "attributes", "errorName", "errorCode"];

/** The columns that the rules need, without the long texts. */
export const selectedState = Object.entries(columns)
  .filter(([, member]) => !notInState.includes(member))
  .map(([column, member]) => `r.${column} AS "${member}"`)
  .join(", ");

const columnOf = new Map<string, string>([
  ...Object.entries(columns).map(([column, member]) => [member, column] as const),
  ["expiresAt", "expires_at"],
]);

/** The columns and values of a change. There are few different texts, because the same members change together. */
export function updateOf(to: RunUpdate): {
  readonly sets: string;
  readonly values: SqliteValue[];
} {
  const entries = Object.entries(to);
  return {
    sets: entries.map(([member]) => `${columnOf.get(member)} = ?`).join(", "),
    values: entries.map(([member, value]) => boundValue(member, value)),
  };
}

function boundValue(member: string, value: string | number | boolean | null | readonly string[]): SqliteValue {
  if (typeof value === "boolean") return value ? 1 : 0;
  if (typeof value === "object" && value !== null) return value.length === 0 ? null : JSON.stringify(value);
  // A message for people: replace NUL, so that it does not prevent the run from being released.
  if (member === "trouble" && typeof value === "string") return value.replaceAll("\0", "\uFFFD");
  return typeof value === "string" ? text(value) : value;
}

export const selectedEntry = "j.seq, j.epoch, j.at, j.events";
export const selectedMail = "m.seq, m.kind, m.about, m.payload, m.at";
export const selectedHook = `h.token, h.about, h.metadata, h.created_at AS "createdAt"`;

/** The number of the run that a row belongs to. */
export interface OfRun {
  readonly no: number;
}

/** A run as `selectedRun` reads it. `avoid` is a JSON list, or null if it is empty. */
export interface RunRow extends Omit<RunRecord, "alone" | "avoid">, Partial<OfRun> {
  readonly alone: 0 | 1;
  readonly avoid: string | null;
}

export function toRun({ no: _, alone, avoid, ...row }: RunRow): RunRecord {
  return { ...row, alone: alone === 1, avoid: avoid === null ? [] : (JSON.parse(avoid) as string[]) };
}

export function toEntry({ seq, epoch, at, events }: JournalEntry): JournalEntry {
  return { seq, epoch, at, events };
}

export function toMail({ seq, kind, about, payload, at }: Mail): Mail {
  return { seq, kind, about, payload, at };
}

export function toHook(run: string, { token, about, metadata, createdAt }: Omit<HookRecord, "run">): HookRecord {
  return { token, run, about, metadata, createdAt };
}

const selectNow = `SELECT ${clockSql} AS now`;

export function storeNow(sql: Prepared): number {
  return (sql(selectNow).get() as { now: number }).now;
}

/** Rejects NUL. One of the drivers silently cuts a text at its first NUL: two ids would become one, and values would be cut. */
export function text<T extends string | null>(value: T): T {
  if (value?.includes("\0")) throw new StoreRefusedError("[onceflow] [sqlite] a text with a NUL character cannot be stored");
  return value;
}
