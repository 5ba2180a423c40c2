import type { Begin } from "../../../core/ledger/operation.js";
import { effectClasses } from "../../../core/ledger/record.js";
import { add, and, choose, type Expression, eq, gte, isMissing, literal, lt, max, ne, not, now, or, orElse } from "./expressions.js";
import { pastMax } from "./record-document.js";
import type { StateWords } from "./record-place.js";
import { requireRoom } from "./settle.js";

const reconcile = effectClasses.indexOf("reconcile");

/**
 * A begin as an update of one document: if `decideBegin` would grant it, the document becomes a new running attempt; otherwise it
 * stays as it is, and MongoDB writes nothing. The caller gets the document after the update, and its owner shows whether the begin was
 * granted.
 */
export function beginUpdate(begin: Begin, { member, running }: StateWords): Record<string, unknown>[] {
  requireRoom(begin.progress);
  const state = `$${member}`;
  const isNew = isMissing(state);
  const over = and(ne("$goneAt", null), gte(now, "$goneAt"));
  const rank = effectClasses.indexOf(begin.effect);
  const strictest = max("$effect", rank);
  const lapsed = and(eq(state, running), gte(now, "$leaseUntil"));
  const inDoubt = or(lapsed, eq(state, "unknown"));
  // This same begin was sent before and its reply was lost: it finds its own success and writes nothing.
  const mine = and(eq(state, running), eq("$owner", literal(begin.owner)));
  const mismatch = begin.fingerprint === null ? false : and(ne("$fingerprint", null), ne("$fingerprint", literal(begin.fingerprint)));
  const open = or(
    eq(state, "free"),
    and(lapsed, lt(strictest, reconcile)),
    begin.over === null ? false : and(inDoubt, eq(strictest, reconcile), eq("$attempt", begin.over)),
  );
  const granted = or(isNew, and(not(mine), or(over, and(not(mismatch), open))));
  const again = not(or(isNew, over));

  const next = {
    _id: "$_id",
    scope: literal(begin.scope),
    key: literal(begin.key),
    [member]: running,
    fingerprint: orElse(choose(again, "$fingerprint", null), literal(begin.fingerprint)),
    effect: choose(again, strictest, rank),
    attempt: add(orElse("$attempt", 0), 1),
    owner: literal(begin.owner),
    createdAt: choose(again, "$createdAt", now),
    startedAt: now,
    leaseUntil: add(now, begin.leaseMs),
    settledAt: null,
    retentionMs: literal(begin.retentionMs),
    horizonMs: begin.horizonMs,
    reconcileAfterMs: begin.reconcileAfterMs,
    // Included once only: it may have 15 MiB, and a command has at most 16.
    progress: orElse(choose(again, "$progress", null), literal(begin.progress)),
    outcome: null,
    expiresAt: null,
    goneAt: null,
    verdict: "running",
    note: null,
    rev: add(orElse("$rev", 0), 1),
    past: choose(isNew, [], { $slice: [{ $concatArrays: [orElse("$past", []), [ended]] }, -pastMax] }),
  };
  return [{ $replaceWith: choose(granted, next, "$$ROOT") }];
}

/** The log entry of the previous attempt when a new attempt begins. */
const ranTillLapse = eq("$verdict", "running");
const ended: Expression = {
  attempt: "$attempt",
  owner: "$owner",
  startedAt: "$startedAt",
  endedAt: choose(ranTillLapse, "$leaseUntil", "$settledAt"),
  verdict: choose(ranTillLapse, "lapsed", "$verdict"),
  note: "$note",
};
