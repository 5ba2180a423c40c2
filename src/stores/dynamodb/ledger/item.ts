import type { AttributeValue } from "@aws-sdk/client-dynamodb";
import { ConfigurationError } from "../../../core/errors/errors.js";
import type { AttemptEntry, EffectClass, LedgerRecord, RecordId, State, Verdict } from "../../../core/ledger/record.js";
import type { Item, Table } from "../driver.js";
import type { Moment, Observations } from "./observed.js";
import { unpack } from "./value.js";

/**
 * Format of a record as an item. An attribute that is null, or follows from the others, is left out, because every attribute costs
 * time in the driver and billed bytes. So `createdAt` is present only if it differs from `startedAt`, `leaseUntil` only after a
 * renewal (on the owner's clock, for people; `leaseMs` is what counts), `verdict` only if it differs from the state. `past` has the
 * ended attempts as JSON.
 */
const format = 1;
/** Only the newest attempts are kept, because an item is billed by its size. */
const pastMax = 100;
/** Time to live, in seconds, of a record that is kept forever (some thousand years): the update expression always sets one. */
export const everS = 100_000_000_000;
/** Added to the time to live: DynamoDB removes items by its own clock, which may be ahead of ours. */
const marginS = 3600;

/** Attribute names that the store uses: the table's key and time-to-live attribute must have other names. */
export const ownNames: readonly string[] = [
  ...["format", "state", "effect", "attempt", "owner", "fingerprint", "verdict", "note", "rev", "past", "log", "progress"],
  ...["createdAt", "startedAt", "settledAt", "leaseMs", "leaseUntil", "retentionMs", "horizonMs", "reconcileAfterMs", "keepS", "outcome"],
];

/** Unique without escaping: the length says where the scope ends. */
export function idOf({ scope, key }: RecordId): string {
  return `${scope.length}:${scope}:${key}`;
}

export function fromId(id: string): RecordId {
  const colon = id.indexOf(":");
  const end = colon + 1 + Number(id.slice(0, colon));
  return { scope: id.slice(colon + 1, end), key: id.slice(end + 1) };
}

export function keyOf(table: Table, id: RecordId): Item {
  return { [table.partitionKey]: { S: idOf(id) } };
}

/** The item of an attempt that begins: without the attributes that a settle adds, and without a time to live. */
export function itemOf(
  table: Table,
  record: LedgerRecord,
  leaseMs: number,
  past: string | undefined,
  progress: AttributeValue | undefined,
): Item {
  const { retentionMs, horizonMs } = record;
  const item: Item = {
    ...keyOf(table, record),
    state: { S: record.state },
    effect: { S: record.effect },
    attempt: number(record.attempt),
    owner: { S: record.owner },
    startedAt: number(record.startedAt),
    leaseMs: number(leaseMs),
    reconcileAfterMs: number(record.reconcileAfterMs),
    rev: number(record.rev),
  };
  if (record.createdAt !== record.startedAt) item["createdAt"] = number(record.createdAt);
  if (horizonMs !== 0) item["horizonMs"] = number(horizonMs);
  if (record.fingerprint !== null) item["fingerprint"] = { S: record.fingerprint };
  if (retentionMs !== null) {
    item["retentionMs"] = number(retentionMs);
    item["keepS"] = number(Math.ceil((retentionMs + horizonMs) / 1000) + marginS);
  }
  if (past !== undefined) item["past"] = { S: past };
  if (progress !== undefined) item["progress"] = progress;
  return item;
}

/** A record, and the instant at which its lease was evaluated. */
export interface ObservedRecord extends Moment {
  readonly record: LedgerRecord;
}

/** Converts an item to a record, whose lease is as this process has observed it. */
export async function observeRecord(table: Table, item: Item, seen: Observations): Promise<ObservedRecord> {
  if (Number(item["format"]?.N) > format) throw newer(Number(item["format"]?.N));
  const id = fromId(item[table.partitionKey]?.S ?? "");
  const n = (name: string) => Number(item[name]?.N);
  const text = (name: string) => item[name]?.S ?? null;
  const optional = (name: string) => (item[name] === undefined ? null : n(name));
  const [state, settledAt, retentionMs] = [text("state") as State, optional("settledAt"), optional("retentionMs")];
  const [owner, rev, leaseMs] = [text("owner") ?? "", n("rev"), n("leaseMs")];
  const [startedAt, horizonMs] = [n("startedAt"), optional("horizonMs") ?? 0];
  const [outcome, progress] = [await unpack(item["outcome"]), await unpack(item["progress"])];
  const moment = seen.moment();
  if (state !== "running") seen.forget(id);
  const expiresAt =
    state === "running" || state === "unknown" || settledAt === null || retentionMs === null ? null : settledAt + retentionMs;
  const record: LedgerRecord = {
    ...id,
    state,
    fingerprint: text("fingerprint"),
    effect: text("effect") as EffectClass,
    attempt: n("attempt"),
    owner,
    createdAt: optional("createdAt") ?? startedAt,
    startedAt,
    leaseUntil:
      state === "running" ? seen.leaseUntil(id, { rev, owner, leaseMs }, moment) : (optional("leaseUntil") ?? startedAt + leaseMs),
    settledAt,
    retentionMs,
    horizonMs,
    reconcileAfterMs: n("reconcileAfterMs"),
    progress,
    outcome,
    expiresAt,
    goneAt: expiresAt === null ? null : expiresAt + horizonMs,
    verdict: (text("verdict") ?? state) as Verdict,
    note: text("note"),
    rev,
  };
  return { record, ...moment };
}

type PastEntry = readonly [number, string, number, number | null, Verdict, string | null];

export function pastOf(item: Item | undefined): AttemptEntry[] {
  const entries = JSON.parse(item?.["past"]?.S ?? "[]") as PastEntry[];
  return entries.map(([attempt, owner, startedAt, endedAt, verdict, note]) => ({ attempt, owner, startedAt, endedAt, verdict, note }));
}

/** The log of ended attempts with one more at its end. */
export function withPast(item: Item | undefined, ended: AttemptEntry): string {
  const entries = [...pastOf(item), ended].slice(-pastMax);
  return JSON.stringify(entries.map((e): PastEntry => [e.attempt, e.owner, e.startedAt, e.endedAt, e.verdict, e.note]));
}

export function number(value: number): AttributeValue {
  return { N: String(value) };
}

function newer(found: number): ConfigurationError {
  return new ConfigurationError(
    `[onceflow] [dynamodb] an item has format ${found}, but this version of onceflow supports format ${format}: update onceflow before using this table`,
    { code: "SCHEMA_NEWER" },
  );
}
