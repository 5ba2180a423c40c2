import { assert, StoreRefusedError } from "../../../core/errors/errors.js";
import { decide, forgets, outcomeOf, verdictOf } from "../../../core/ledger/decide.js";
import type { Operation, Resolve, Settle } from "../../../core/ledger/operation.js";
import { effectClasses } from "../../../core/ledger/record.js";
import { isConnectionLoss } from "../../../core/store/commit/flush-failure.js";
import type { Verdicted } from "../../../core/store/store.js";
import type { Connection } from "../connection/connection.js";
import type { RedisLink } from "../connection/link.js";
import type { Layout } from "../layout.js";
import { callScript, type ScriptResult } from "../scripts/call.js";
import { flushScript, shortBytesMax } from "../scripts/flush.js";
import { script } from "../scripts/script.js";
import { type Fields, toRecord } from "./record.js";

const flushing = script(flushScript, 128);

/** Writes any mixture of operations in one round trip. Replies other than "written" are interpreted by `decide`. */
export async function flush(connection: Connection, link: RedisLink, layout: Layout, operations: readonly Operation[]) {
  const items = operations.map((operation) => ({
    key: layout.recordOf(operation),
    args: argsOf(operation),
    also: link.cluster ? keysBeside(layout, operation) : [],
    // A server that is out of memory refuses a call with a begin in it, but accepts renewals: so they go into separate calls.
    ...(operation.verb === "renew" ? { group: "renew" } : {}),
  }));
  const results = await callScript(connection, link, flushing, items, { what: "a flush" });
  // The server's error may be caused by one operation of the call: throw it, so that they are sent again one by one.
  const answered = results.find((one) => one instanceof Error && !isConnectionLoss(one));
  if (answered !== undefined) throw answered;
  return results.map((one, i) => (one instanceof Error ? one : judge(operations[i] as Operation, one)));
}

function judge(operation: Operation, { now, reply }: ScriptResult): Verdicted {
  if (typeof reply === "string") return { answer: { kind: "renewed", leaseUntil: Number(reply) }, record: undefined, now };
  const granted = Array.isArray(reply) ? Number(reply[0]) === 1 : Number(reply) === 1;
  if (granted && operation.verb !== "begin") return { answer: { kind: "settled" }, record: undefined, now };
  const record = Array.isArray(reply) ? toRecord(operation, reply[1] as Fields) : undefined;
  const { answer, next } = decide(record, operation, now);
  assert(granted === (next !== undefined), `Redis and decide() do not agree about a ${operation.verb}`);
  return { answer, record: next ?? record, now };
}

function argsOf(operation: Operation): string[] {
  switch (operation.verb) {
    case "begin": {
      const { owner, fingerprint, effect, leaseMs, retentionMs, horizonMs, reconcileAfterMs, over, progress } = operation;
      if (fingerprint === "") throw new StoreRefusedError("[onceflow] [redis] the fingerprint must not be empty");
      return [
        "b",
        owner,
        fingerprint ?? "",
        String(effectClasses.indexOf(effect)),
        whole(leaseMs),
        retentionMs === null ? "" : whole(retentionMs),
        whole(horizonMs),
        whole(reconcileAfterMs),
        over === null ? "" : whole(over),
        optional(progress),
      ];
    }
    case "settle":
      return ["s", ...settlementOf(operation, verdictOf(operation))];
    case "resolve":
      return ["h", ...settlementOf(operation, "resolved", operation.erase)];
    case "renew":
      return ["r", operation.owner, whole(operation.attempt), whole(operation.leaseMs), optional(operation.progress ?? null)];
  }
}

/**
 * The keys besides the record that an operation may write, or that its answer depends on. The answer to a refused settle or renewal
 * may contain the record without its outcome, if that is on the other side of a slot that is being moved; the owner decides by the
 * state.
 */
function keysBeside(layout: Layout, operation: Operation): string[] {
  switch (operation.verb) {
    case "begin":
      return [
        layout.indexOf(operation, "names"),
        layout.indexOf(operation, "over"),
        layout.partOf(operation, "o"),
        layout.partOf(operation, "a"),
      ];
    case "settle":
    case "resolve": {
      const { to } = operation;
      const erase = operation.verb === "resolve" && operation.erase === true;
      const aside = erase || Buffer.byteLength(outcomeOf(to) ?? "") > shortBytesMax;
      return [...(to.state === "unknown" ? [] : [layout.indexOf(operation, "over")]), ...(aside ? [layout.partOf(operation, "o")] : [])];
    }
    case "renew":
      return [];
  }
}

function settlementOf({ owner, attempt, to, note }: Settle | Resolve, verdict: string, erase = false): string[] {
  return [
    owner,
    whole(attempt),
    to.state,
    optional(outcomeOf(to)),
    forgets(to) ? "1" : "",
    verdict === to.state ? "" : verdict,
    optional(note),
    erase ? "1" : "",
  ];
}

/** Empty for null, so that an empty text differs from null. */
function optional(text: string | null): string {
  return text === null ? "" : `=${text}`;
}

function whole(number: number): string {
  if (!Number.isSafeInteger(number)) throw new StoreRefusedError(`[onceflow] [redis] ${number} is not a whole number`);
  return String(number);
}
