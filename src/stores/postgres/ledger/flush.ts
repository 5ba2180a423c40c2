import { assert } from "../../../core/errors/errors.js";
import { decide, forgets, outcomeOf, verdictOf } from "../../../core/ledger/decide.js";
import type { Operation } from "../../../core/ledger/operation.js";
import type { Verdicted } from "../../../core/store/store.js";
import { sentAgain } from "../connection/send-again.js";
import type { PgClient } from "../driver.js";
import { fullStatement } from "./full-statement.js";
import { quickFlush } from "./quick-flush.js";
import { type RecordRow, toRecord } from "./row.js";

interface Seen {
  readonly ord: number;
  readonly now: number;
  readonly written: boolean;
  readonly record: RecordRow | null;
}

/**
 * A flush: the quick statement for the common cases, in one round trip; then the full statement for operations that it could not do
 * (takeover of a dead attempt, stale owner) and for renewals and resolves. Each statement is durable and atomic by itself, and each
 * operation is applied by only one of them.
 */
export async function flush(client: PgClient, schema: string, operations: readonly Operation[]): Promise<(Verdicted | "again")[]> {
  const quick = await sentAgain(() => quickFlush(client, schema, operations));
  const open = operations.filter((_, i) => quick[i] === undefined);
  if (open.length === 0) return quick as Verdicted[];
  const statement = { name: `onceflow-${schema}-full`, text: fullStatement(schema) };
  const full = await sentAgain(() => fullFlush(client, statement, open));
  return quick.map((verdict) => verdict ?? full.shift() ?? "again");
}

/** One statement for any mixture of operations. Its results are interpreted by `decide`. */
export async function fullFlush(
  client: PgClient,
  statement: { readonly name?: string; readonly text: string },
  operations: readonly Operation[],
): Promise<(Verdicted | "again")[]> {
  const asked = JSON.stringify(operations.map(toAsked));
  const { rows } = await client.query<{ answer: string }>({ ...statement, values: [asked] });
  const verdicts: (Verdicted | "again")[] = operations.map(() => "again");
  for (const { answer } of rows) {
    const seen = JSON.parse(answer) as Seen;
    const operation = operations[seen.ord];
    assert(operation !== undefined, "every row of a flush answers an operation");
    verdicts[seen.ord] = judge(operation, seen);
  }
  return verdicts;
}

function judge(operation: Operation, { now, written, record: row }: Seen): Verdicted | "again" {
  const record = row === null ? undefined : toRecord(row);
  const { answer, next } = decide(record, operation, now);
  if (written) {
    assert(next !== undefined, `PostgreSQL granted a ${operation.verb} that decide() refuses`);
    return { answer, record: next, now };
  }
  // If `decide` would grant it, the record changed between reading and locking.
  return next === undefined ? { answer, record, now } : "again";
}

/** An operation as a row of `asked`. Absent members are null. */
function toAsked(operation: Operation, ord: number): Record<string, string | number | boolean | null> {
  const { verb, scope, key, owner } = operation;
  const base = { ord, verb, scope, key, owner };
  switch (operation.verb) {
    case "begin":
      return {
        ...base,
        fingerprint: operation.fingerprint,
        effect: operation.effect,
        lease_ms: operation.leaseMs,
        retention_ms: operation.retentionMs,
        horizon_ms: operation.horizonMs,
        reconcile_after_ms: operation.reconcileAfterMs,
        over: operation.over,
        progress: operation.progress,
      };
    case "renew":
      return { ...base, attempt: operation.attempt, lease_ms: operation.leaseMs, progress: operation.progress ?? null };
    case "settle":
    case "resolve":
      return {
        ...base,
        attempt: operation.attempt,
        to_state: operation.to.state,
        outcome: outcomeOf(operation.to),
        forget: forgets(operation.to),
        verdict: operation.verb === "settle" ? verdictOf(operation) : "resolved",
        note: operation.note,
        erase: operation.verb === "resolve" && operation.erase === true,
      };
  }
}
