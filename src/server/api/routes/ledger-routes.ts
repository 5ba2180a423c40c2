import { InvalidInputError, StoreRefusedError } from "../../../core/errors/errors.js";
import type { Key } from "../../../core/ledger/key.js";
import { effectKeyOf } from "../../../core/ledger/key.js";
import { idOf, type KeyRef, whole } from "../../../core/ledger/key-ref.js";
import type { Answer, Begin, Renew, Settle, Settlement } from "../../../core/ledger/operation.js";
import { duration, leaseMsMax, leaseMsMin, prepare } from "../../../core/ledger/options.js";
import { effectClasses, type RecordId } from "../../../core/ledger/record.js";
import { sendBegin, shorter } from "../../../core/ledger/save.js";
import { encodeResult } from "../../../core/ledger/settlement.js";
import { sha256 } from "../../../core/values/canonical.js";
import { decode } from "../../../core/values/codec.js";
import { randomText } from "../../../core/values/random-text.js";
import { decodeError, encodeError } from "../../../core/values/stored-error.js";
import { scopeFor } from "../caller.js";
import { choice, either, flag, json, members, optional, text, wholeNumber } from "../fields.js";
import { ApiProblem } from "../problems.js";
import { type Call, type Route, route } from "../route.js";
import { errorFor, valuesFor } from "../values.js";
import { givenError } from "./given-error.js";

const leaseMsDefault = 30_000;
const requestIdCharsMin = 16;

export const scopeField = optional(text("Scope (tenant) of the key. Default: your only scope, or the scope without a name"));
export const keyField = text("The key, as text of at most 512 bytes");
const ownerField = text("The owner that begin has returned");
const attemptField = wholeNumber("The attempt that begin has returned", 1, Number.MAX_SAFE_INTEGER);
const leaseField = optional(wholeNumber("How long the attempt may go without renewing. Default 30000", leaseMsMin, leaseMsMax));
const durationField = (about: string) => optional(wholeNumber(about, 0, Number.MAX_SAFE_INTEGER));

/** `once` for programs in any language: begin, renew while the operation runs, settle. */
export const ledgerRoutes: readonly Route[] = [
  route({
    id: "beginKey",
    method: "POST",
    path: "/keys/begin",
    about:
      "Begin an attempt under a key, or get the outcome that the key has. The answer has the owner, which renews and settles the attempt",
    role: "work",
    problems: ["RUNNING", "UNKNOWN_OUTCOME", "GONE", "MISMATCH"],
    fields: {
      scope: scopeField,
      key: keyField,
      requestId: optional(
        text("16 or more random characters. The same begin sent again with it, after a lost answer, finds its own attempt", 200),
      ),
      input: optional(json("The request; the same key with another input is refused")),
      fingerprint: optional(text("Used in place of input to recognize the same request")),
      leaseMs: leaseField,
      effect: optional(choice("What may happen after an attempt crashed. Default idempotent", effectClasses)),
      retentionMs: optional(
        either(
          'How long the outcome can be replayed. Default 24 hours; "forever"',
          wholeNumber("", 0, Number.MAX_SAFE_INTEGER),
          choice<"forever">("", ["forever"]),
          'must be a number of milliseconds or "forever"',
        ),
      ),
      horizonMs: durationField("How long after the retention a late retry is refused. Default 0"),
      reconcileAfterMs: durationField("How long after the lease the answer of the external system can be trusted. Default: leaseMs"),
      over: optional(
        wholeNumber(
          "Of effect reconcile: the unknown attempt of which the external system says that it did not happen",
          1,
          Number.MAX_SAFE_INTEGER,
        ),
      ),
    },
    answer: "Begun",
    run: async (call) => {
      const { store, caller, input, signal } = call;
      const { requestId, over = null, scope: given, key, ...options } = input;
      const scope = scopeFor(caller, given);
      const effect = options.effect ?? "idempotent";
      const reconcile = effect === "reconcile" ? { reconcile: () => "unknown" as const } : {};
      const { begin } = prepare({ leaseMs: leaseMsDefault, ...options, ...reconcile, scope, key: key as Key });
      const operation: Begin = { ...begin, over, owner: ownerOf(call, begin, requestId) };
      const answer = await sendBegin(store, operation, signal);
      // The client renews: this process must not go on renewing for a client that has died.
      if (answer.kind === "started") store.release(operation.owner, begin);
      return await begun(call, operation, answer, requestId !== undefined);
    },
  }),
  route({
    id: "renewKey",
    method: "POST",
    path: "/keys/renew",
    about: "Extend the lease of an attempt that still runs",
    role: "work",
    problems: ["LEASE_LOST"],
    fields: { scope: scopeField, key: keyField, owner: ownerField, attempt: attemptField, leaseMs: leaseField },
    answer: "Renewed",
    run: async ({ store, caller, input }) => {
      const { owner, attempt, leaseMs = leaseMsDefault } = input;
      const id = ownedId(idFor(caller, input), owner);
      duration("leaseMs", leaseMs, leaseMsMin, leaseMsMax);
      const renew: Renew = { verb: "renew", ...id, owner, attempt, leaseMs };
      const answer = await store.commit({ ledger: renew });
      if (answer.kind !== "renewed") throw leaseLost(id, attempt);
      return { ...id, attempt, leaseMs, leaseUntil: new Date(answer.leaseUntil) };
    },
  }),
  route({
    id: "settleKey",
    method: "POST",
    path: "/keys/settle",
    about:
      "Record how an attempt ended: completed with a result, failed with an error that replays repeat, free (the next begin runs the operation again), or unknown. Safe to send again",
    role: "work",
    problems: ["LEASE_LOST"],
    fields: {
      scope: scopeField,
      key: keyField,
      owner: ownerField,
      attempt: attemptField,
      completed: optional(json("The result")),
      kept: optional(flag("False, beside completed: the result cannot be stored; replays say so instead of returning null")),
      failed: optional(members("The error: { name, message, code }")),
      free: optional(flag("True: the effect did not happen, or may safely happen again")),
      unknown: optional(flag("True: it is not known whether the effect happened")),
      note: optional(text("Name of the error, for the attempt log", 100)),
    },
    answer: "Settled",
    run: async ({ store, caller, input }) => {
      const { owner, attempt } = input;
      const id = ownedId(idFor(caller, input), owner);
      whole("attempt", attempt, 1, Number.MAX_SAFE_INTEGER);
      const to = await settlementOf(store, input);
      const settle: Settle = { verb: "settle", ...id, owner, attempt, to, note: noteOf(input) };
      const answer = await settled(store, settle);
      if (answer.kind !== "settled") throw leaseLost(id, attempt);
      return { ...id, attempt, state: to.state, kept: to.state !== "completed" || to.outcome !== null };
    },
  }),
];

export function idFor(caller: Call["caller"], { scope, key }: { readonly scope?: string; readonly key: string }): RecordId {
  const ref: KeyRef = { key, scope: scopeFor(caller, scope) };
  return idOf(ref);
}

const ownerPrefix = "api ";

/**
 * The owner is made of the request's id, so that a begin whose answer was lost is recognized. It is made of the caller and the key, too: another caller does not get the attempt with that id.
 */
function ownerOf({ caller }: Call<object>, { scope, key }: RecordId, requestId: string | undefined): string {
  if (requestId === undefined) return `${ownerPrefix}${randomText(32)}`;
  if (requestId.length < requestIdCharsMin)
    throw new InvalidInputError(
      "requestId",
      `must have at least ${requestIdCharsMin} characters: it protects the attempt, so make it of random`,
    );
  return `${ownerPrefix}${sha256([caller.actor, scope, key, requestId].join("\0"))}`;
}

/** Owners of attempts that run in processes of the store are not accepted, whatever a client has learnt of them. */
function ownedId(id: RecordId, owner: string): RecordId {
  if (!owner.startsWith(ownerPrefix)) throw new InvalidInputError("owner", "is not an owner that begin has returned");
  return id;
}

async function begun(call: Call<object>, begin: Begin, answer: Answer, mayRepeat: boolean): Promise<object> {
  const { scope, key, owner, leaseMs } = begin;
  const id = { scope, key };
  switch (answer.kind) {
    case "started": {
      const { attempt, effect, startedAt } = answer;
      const leaseUntil = mayRepeat ? await renewedLease(call, begin, answer) : answer.leaseUntil;
      const times = { startedAt: new Date(startedAt), leaseUntil: new Date(leaseUntil) };
      return { status: "started", ...id, owner, attempt, effect, effectKey: effectKeyOf(scope, key), leaseMs, ...times };
    }
    case "replay": {
      const { state, attempt, outcome } = answer.record;
      const about = { status: "replayed", ...id, state, attempt, effectKey: effectKeyOf(scope, key) };
      if (state === "failed") return { ...about, kept: true, error: errorFor(call.caller, decodeError(outcome ?? "{}")) };
      if (outcome === null) return { ...about, kept: false };
      return { ...about, kept: true, ...valuesFor(call.caller, () => ({ value: decode(outcome) })) };
    }
    case "running":
      throw new ApiProblem("RUNNING", "", { ...id, attempt: answer.attempt, retryAfterMs: Math.max(1, Math.ceil(answer.forMs)) });
    case "mismatch":
      throw new ApiProblem("MISMATCH", "use a new key for a new operation, or repeat the first input", { ...id, attempt: answer.attempt });
    case "gone":
      throw new ApiProblem("GONE", "", { ...id, attempt: answer.attempt });
    case "unknown": {
      const { attempt, effect, reconcileInMs } = answer;
      throw new ApiProblem("UNKNOWN_OUTCOME", "", { ...id, attempt, effect, effectKey: effectKeyOf(scope, key), reconcileInMs });
    }
    default:
      throw new Error(`begin was answered with ${answer.kind}`);
  }
}

/** A begin that is repeated may find its attempt with a lease that is over, or nearly: the client runs the operation under a lease that it can rely on. */
async function renewedLease({ store }: Call<object>, begin: Begin, started: Extract<Answer, { kind: "started" }>): Promise<number> {
  const { scope, key, owner, leaseMs } = begin;
  const { attempt, leaseUntil } = started;
  const reading = await store.read({ scope, key });
  if (reading !== undefined && reading.now < leaseUntil - leaseMs / 2) return leaseUntil;
  const renew: Renew = { verb: "renew", scope, key, owner, attempt, leaseMs };
  const answer = await store.commit({ ledger: renew });
  if (answer.kind === "renewed") return answer.leaseUntil;
  throw leaseLost({ scope, key }, attempt);
}

function leaseLost(id: RecordId, attempt: number): ApiProblem {
  return new ApiProblem("LEASE_LOST", "", { ...id, attempt });
}

interface Ends {
  readonly completed?: unknown;
  readonly kept?: boolean;
  readonly failed?: Readonly<Record<string, unknown>>;
  readonly free?: boolean;
  readonly unknown?: boolean;
  readonly note?: string;
}

const ends = ["completed", "failed", "free", "unknown"] as const;

async function settlementOf(store: Call["store"], input: Ends): Promise<Settlement> {
  const given = ends.filter((end) => Object.hasOwn(input, end) && input[end] !== (end === "completed" ? undefined : false));
  const [end] = given;
  if (end === undefined || given.length > 1) throw new InvalidInputError("settle", `needs one of ${ends.join(", ")}`);
  if (input.kept !== undefined && end !== "completed") throw new InvalidInputError("kept", "is for completed only");
  if (end === "completed") return { state: "completed", outcome: input.kept === false ? null : await encodeResult(store, input.completed) };
  if (end === "failed") return { state: "failed", outcome: encodeError(givenError("failed", input.failed ?? {})) };
  return { state: end };
}

/** The attempt log says that an attempt threw if it has the name of an error. */
function noteOf({ note, failed }: Ends): string | null {
  const name = note ?? (typeof failed?.["name"] === "string" ? failed["name"] : undefined);
  return name === undefined ? null : name.replace(/\p{Cc}/gu, "").slice(0, 100);
}

/** A value that the store never accepts is left out: the key must not become free because of it. */
async function settled(store: Call["store"], settle: Settle): Promise<Answer> {
  try {
    return await store.commit({ ledger: settle });
  } catch (error) {
    const to = error instanceof StoreRefusedError ? shorter(settle.to) : undefined;
    if (to === undefined) throw error;
    return await store.commit({ ledger: { ...settle, to } });
  }
}
