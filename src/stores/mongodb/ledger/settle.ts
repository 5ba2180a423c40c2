import { StoreRefusedError } from "../../../core/errors/errors.js";
import { forgets, outcomeOf, verdictOf } from "../../../core/ledger/decide.js";
import type { Renew, Resolve, Settle } from "../../../core/ledger/operation.js";
import { absent, add, choose, eq, gte, literal, max, now } from "./expressions.js";
import { idIn, type RecordPlace, type StateWords } from "./record-place.js";

/** A conditional write: the fence is in the filter, so a write with a stale fence matches nothing and changes nothing. */
export interface FencedUpdate {
  readonly filter: Record<string, unknown>;
  readonly update: Record<string, unknown>[];
}

export function settleUpdate(settle: Settle, place: RecordPlace): FencedUpdate {
  const { owner, attempt, to } = settle;
  // The late owner of an unknown attempt may still settle it. A record that is already settled stays as it is.
  const { member, running } = place.words;
  const open = { $in: [running, "unknown"].filter((one) => one !== to.state) };
  return { filter: { _id: idIn(place, settle), owner, attempt, [member]: open }, update: settled(settle, verdictOf(settle), member) };
}

export function resolveUpdate(resolve: Resolve, place: RecordPlace): FencedUpdate {
  const { member, running } = place.words;
  const lapsed = { [member]: running, $expr: gte(now, "$leaseUntil") };
  // Sent again, it finds its own success and changes nothing.
  const another = [{ owner: { $ne: resolve.owner } }, { [member]: { $ne: resolve.to.state } }];
  const over = { [member]: { $ne: running }, $or: another };
  const open = [{ [member]: "unknown" }, lapsed, ...(resolve.erase ? [over] : [])];
  const filter = { _id: idIn(place, resolve), attempt: resolve.attempt, $or: open };
  return { filter, update: settled(resolve, "resolved", member) };
}

export function renewUpdate(renew: Renew, place: RecordPlace): FencedUpdate {
  const { owner, attempt, leaseMs, progress } = renew;
  requireRoom(progress ?? null);
  const { member, running } = place.words;
  const got = progress === undefined ? {} : { progress: literal(progress) };
  return {
    filter: { _id: idIn(place, renew), owner, attempt, [member]: running },
    update: [{ $set: { leaseUntil: max("$leaseUntil", add(now, leaseMs)), rev: add("$rev", 1), ...got } }],
  };
}

/** A document has at most 16 MiB. Larger values are refused here, because a server may close the connection for them. */
const valueBytesMax = 15 * 1024 * 1024;

export function requireRoom(value: string | null): void {
  if (value === null || value.length * 3 <= valueBytesMax || Buffer.byteLength(value) <= valueBytesMax) return;
  throw new StoreRefusedError(`[onceflow] [mongodb] a value has more than ${valueBytesMax} bytes and does not fit into a document`);
}

function settled({ to, owner, note }: Settle | Resolve, verdict: string, member: StateWords["member"]): Record<string, unknown>[] {
  const outcome = outcomeOf(to);
  requireRoom(outcome);
  const kept = to.state === "unknown" ? true : eq("$retentionMs", null);
  const expiresAt = add(now, "$retentionMs");
  const goneAt = add(now, "$retentionMs", "$horizonMs");
  const isOutcome = to.state === "completed" || to.state === "failed";
  return [
    {
      $set: {
        [member]: to.state,
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
        // A free record keeps the attempt number, so MongoDB does not remove it itself; only a purge does.
        removeAt: isOutcome ? choose(kept, absent, { $toDate: goneAt }) : absent,
        ...(forgets(to) ? { fingerprint: null } : {}),
      },
    },
  ];
}
