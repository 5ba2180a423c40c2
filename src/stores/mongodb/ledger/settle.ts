import { StoreRefusedError } from "../../../core/errors/errors.js";
import { forgets, outcomeOf, verdictOf } from "../../../core/ledger/decide.js";
import type { Renew, Resolve, Settle } from "../../../core/ledger/operation.js";
import { absent, add, choose, eq, gte, literal, max, now } from "./expressions.js";
import { idOf } from "./record-document.js";

/** A conditional write: the fence is in the filter, and a write whose filter finds nothing changes nothing. */
export interface FencedUpdate {
  readonly filter: Record<string, unknown>;
  readonly update: Record<string, unknown>[];
}

export function settleUpdate(settle: Settle): FencedUpdate {
  const { owner, attempt, to } = settle;
  // "unknown" is open to the late owner of that very attempt. What is settled already is left as it is.
  const state = { $in: ["running", "unknown"].filter((one) => one !== to.state) };
  return { filter: { _id: idOf(settle), owner, attempt, state }, update: settled(settle, verdictOf(settle)) };
}

export function resolveUpdate(resolve: Resolve): FencedUpdate {
  const lapsed = { state: "running", $expr: gte(now, "$leaseUntil") };
  // Sent again, it finds its own work, and leaves it as it is.
  const another = [{ owner: { $ne: resolve.owner } }, { state: { $ne: resolve.to.state } }];
  const over = { state: { $ne: "running" }, $or: another };
  const open = [{ state: "unknown" }, lapsed, ...(resolve.erase ? [over] : [])];
  const filter = { _id: idOf(resolve), attempt: resolve.attempt, $or: open };
  return { filter, update: settled(resolve, "resolved") };
}

export function renewUpdate(renew: Renew): FencedUpdate {
  const { owner, attempt, leaseMs, progress } = renew;
  requireRoom(progress ?? null);
  const got = progress === undefined ? {} : { progress: literal(progress) };
  return {
    filter: { _id: idOf(renew), owner, attempt, state: "running" },
    update: [{ $set: { leaseUntil: max("$leaseUntil", add(now, leaseMs)), rev: add("$rev", 1), ...got } }],
  };
}

/** A document has at most 16 MiB. What would not fit is refused here: a server may end the connection over it. */
const valueBytesMax = 15 * 1024 * 1024;

export function requireRoom(value: string | null): void {
  if (value === null || value.length * 3 <= valueBytesMax || Buffer.byteLength(value) <= valueBytesMax) return;
  throw new StoreRefusedError(`[onceflow] [mongodb] a value has more than ${valueBytesMax} bytes, and does not fit into a document`);
}

function settled({ to, owner, note }: Settle | Resolve, verdict: string): Record<string, unknown>[] {
  const outcome = outcomeOf(to);
  requireRoom(outcome);
  const kept = to.state === "unknown" ? true : eq("$retentionMs", null);
  const expiresAt = add(now, "$retentionMs");
  const goneAt = add(now, "$retentionMs", "$horizonMs");
  const isOutcome = to.state === "completed" || to.state === "failed";
  return [
    {
      $set: {
        state: to.state,
        owner: literal(owner),
        settledAt: now,
        ...(to.state === "unknown" ? {} : { progress: null }),
        outcome: literal(outcome),
        expiresAt: choose(kept, null, expiresAt),
        goneAt: choose(kept, null, goneAt),
        verdict,
        note: literal(note),
        rev: add("$rev", 1),
        purgeFrom: choose(kept, absent, outcome === null ? goneAt : expiresAt),
        // A free key is as open as a new one, and still knows its number: only a purge that somebody asked for removes it.
        removeAt: isOutcome ? choose(kept, absent, { $toDate: goneAt }) : absent,
        ...(forgets(to) ? { fingerprint: null } : {}),
      },
    },
  ];
}
