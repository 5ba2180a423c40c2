import { randomUUID } from "node:crypto";
import { InvalidInputError, OnceflowError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { type Inspection, inspect as inspectKey } from "../core/ledger/inspect.js";
import { checkRef, idOf, type KeyRef, whole } from "../core/ledger/key-ref.js";
import type { Resolve } from "../core/ledger/operation.js";
import { hasLapsed, type LedgerRecord, mayRunAgain, type RecordId, type State, stateAt } from "../core/ledger/record.js";
import { saveOutcome } from "../core/ledger/save.js";
import { encodeResult } from "../core/ledger/settlement.js";
import { checkActionId, checkText } from "../core/runs/log.js";
import { requireStore } from "../core/store/require-store.js";
import type { Reading, Store } from "../core/store/store.js";
import { sha256 } from "../core/values/canonical.js";
import { encodeError } from "../core/values/stored-error.js";
import { KeyActionRefusedError, KeyNotFoundError } from "./key-errors.js";

/**
 * The actions of operators on keys, as plain functions: the command line, the HTTP API and the studio call these and have no logic of their own. Each is compared with
 * the attempt that the operator has seen. Actor, action and reason are written to the attempt log of the key in the same commit, on every store. An action that is
 * sent again with the same `actionId` finds its own success: its owner is made of that id.
 */
export interface KeyOperator {
  /** Who acts. */
  readonly actor: string;
  readonly reason?: string;
  /** Identifies the action: sent again with the same id, it is not done again. Default: a new random id. */
  readonly actionId?: string;
  /** Only says what the action would do. Default false. */
  readonly dryRun?: boolean;
}

/** For actions that state what an operator found out, or that cannot be undone. */
type ForReason = KeyOperator & { readonly reason: string };

const operatorNames: OptionNames<KeyOperator> = { actor: true, reason: true, actionId: true, dryRun: true };

/** What every action on a key answers. */
export interface KeyActionResult extends RecordId {
  /** The attempt that the action was about. */
  readonly attempt: number;
  /** The state of the key after the action. */
  readonly state: State;
  readonly actionId: string;
  /** An earlier call with the same action id has done it. */
  readonly repeated: boolean;
  /** Nothing was done. */
  readonly dryRun: boolean;
}

/** What an operator found out about an attempt whose outcome is unknown. `free`: the effect did not happen, so the next call runs the operation. */
export type KeyResolution = { readonly completed: unknown } | { readonly failed: unknown } | "free";

/** Reads the record of a key with its outcome and attempts. Throws KeyNotFoundError if there is none. */
export async function inspect(store: Store, ref: KeyRef): Promise<Inspection> {
  const found = await inspectKey(store, ref);
  if (found === undefined) throw new KeyNotFoundError(idOf(ref));
  return found;
}

/**
 * Records the outcome of an attempt whose outcome is unknown, or whose lease has expired. `ref.attempt` is the attempt that the operator has checked: a late write of it
 * is refused from then on.
 */
export async function resolve(
  store: Store,
  ref: KeyRef & { readonly attempt: number },
  as: KeyResolution,
  operator: ForReason,
): Promise<KeyActionResult> {
  needsReason(operator);
  whole("attempt", ref.attempt, 1, Number.MAX_SAFE_INTEGER);
  const to = await settlementOf(store, as);
  return await act(store, ref, {
    action: "resolve",
    operator,
    to: ({ record, now }) => {
      const state = hasLapsed(record, now) ? "unknown" : record.state;
      if (state === "unknown") return to;
      throw refused(record, state === "running" ? "running" : "settled", `its outcome is not unknown; the key is ${state}`);
    },
  });
}

/**
 * Frees a key whose owner has died, without waiting for the next call: only if the lease has expired, and only for effect classes that may run again. What happened in an
 * attempt of the other classes has to be found out first: see {@link resolve}.
 */
export async function release(store: Store, ref: KeyRef & { readonly attempt?: number }, operator: KeyOperator): Promise<KeyActionResult> {
  return await act(store, ref, {
    action: "release",
    operator,
    to: ({ record, now }) => {
      const state = stateAt(record, now);
      if (state === "unknown" || (record.state === "running" && !mayRunAgain(record.effect)))
        throw refused(
          record,
          "mustResolve",
          `its effect class is ${record.effect}; find out whether the effect happened, and resolve the key`,
        );
      if (record.state !== "running") throw refused(record, "settled", `no attempt runs; the key is ${record.state}`);
      if (!hasLapsed(record, now)) throw refused(record, "running", `its lease lasts ${record.leaseUntil - now} ms more`);
      return { state: "free" };
    },
  });
}

/**
 * Removes the stored result or error of a settled key. The key keeps its state: the operation does not run again, and a replay throws ResultNotKeptError, or an error
 * that says that the first one was erased.
 */
export async function erase(store: Store, ref: KeyRef & { readonly attempt?: number }, operator: ForReason): Promise<KeyActionResult> {
  needsReason(operator);
  return await act(store, ref, {
    action: "erase",
    operator,
    erases: true,
    to: ({ record }) => {
      if (record.state === "completed") return { state: "completed", outcome: null };
      if (record.state === "failed") return { state: "failed", outcome: erasedError() };
      throw refused(record, record.state === "running" ? "running" : "nothingKept", `it has no outcome; the key is ${record.state}`);
    },
  });
}

interface KeyAction {
  readonly action: "resolve" | "release" | "erase";
  readonly operator: KeyOperator;
  readonly erases?: true;
  /** How the key is settled. Throws KeyActionRefusedError. */
  readonly to: (reading: Reading) => Resolve["to"];
}

async function act(store: Store, ref: KeyRef & { readonly attempt?: number }, action: KeyAction): Promise<KeyActionResult> {
  requireStore(store);
  checkRef(`keys.${action.action}`, ref);
  const id = idOf(ref);
  const { actionId = randomUUID(), dryRun = false } = checkOperator(action.operator);
  const sent = { id, attempt: ref.attempt, action: action.action, actionId };
  const reading = await store.read(id);
  if (reading === undefined) throw new KeyNotFoundError(id);
  const earlier = await earlierAnswer(store, sent, reading);
  if (earlier !== undefined) return earlier;
  const { record } = reading;
  if (ref.attempt !== undefined && ref.attempt !== record.attempt)
    throw refused(record, "changed", `the action was decided on attempt ${ref.attempt}; look at the key again`);
  const to = action.to(reading);
  const result = { ...id, attempt: record.attempt, state: to.state, actionId, repeated: false, dryRun };
  if (dryRun) return result;
  const operation: Resolve = {
    verb: "resolve",
    ...id,
    owner: ownerOf(action.action, actionId, to.state),
    attempt: record.attempt,
    to,
    note: noteOf(action),
    ...(action.erases ? { erase: true } : {}),
  };
  const answer = await saveOutcome(store, operation);
  if (answer.kind === "settled") return result;
  const after = await store.read(id);
  if (after === undefined) throw new KeyNotFoundError(id);
  // The same action, sent twice at the same time: the other one was first.
  const meanwhile = await earlierAnswer(store, sent, after);
  if (meanwhile !== undefined) return meanwhile;
  throw refused(after.record, "changed", `it has changed meanwhile and is ${after.record.state} now; look at the key again`);
}

interface SentAction {
  readonly id: RecordId;
  readonly attempt: number | undefined;
  readonly action: string;
  readonly actionId: string;
}

const attemptsMax = 1000;

/** The answer of an earlier call with this action id: the owner of the current attempt, or of an earlier one, is made of the id. */
async function earlierAnswer(store: Store, sent: SentAction, { record }: Reading): Promise<KeyActionResult | undefined> {
  const { id, action, actionId } = sent;
  const mark = `${ownerMark(actionId)} `;
  const current = { owner: record.owner, attempt: record.attempt };
  const past = (): Promise<readonly { readonly owner: string; readonly attempt: number }[]> =>
    store.attempts({ ...id, afterAttempt: Math.max(0, record.attempt - attemptsMax), limit: attemptsMax });
  const found = current.owner.startsWith(mark) ? current : (await past()).find(({ owner }) => owner.startsWith(mark));
  if (found === undefined) return undefined;
  const [done, state] = found.owner.slice(mark.length).split(" ");
  if (done !== action) throw new InvalidInputError("actionId", `was used before, to ${done} this key; use a new id for a new action`);
  return { ...id, attempt: found.attempt, state: state as State, actionId, repeated: true, dryRun: false };
}

/** The owner is the fence of the record, and says which action has set it. */
function ownerOf(action: string, actionId: string, state: State): string {
  return `${ownerMark(actionId)} ${action} ${state}`;
}

function ownerMark(actionId: string): string {
  return `operator ${sha256(actionId).slice(0, 32)}`;
}

function noteOf({ action, operator: { actor, reason } }: KeyAction): string {
  return `${action} by ${actor}${reason === undefined ? "" : `: ${reason}`}`;
}

async function settlementOf(store: Store, as: KeyResolution): Promise<Resolve["to"]> {
  if (as === "free") return { state: "free" };
  if (typeof as === "object" && as !== null && Object.keys(as).length === 1) {
    if (Object.hasOwn(as, "completed"))
      return { state: "completed", outcome: await encodeResult(store, (as as { readonly completed: unknown }).completed) };
    if (Object.hasOwn(as, "failed")) return { state: "failed", outcome: encodeError((as as { readonly failed: unknown }).failed) };
  }
  throw new InvalidInputError("as", 'must be { completed: value }, { failed: error } or "free"');
}

function erasedError(): string {
  return encodeError(new OnceflowError("the error of this operation was erased", { code: "ERASED" }));
}

function checkOperator(operator: KeyOperator): KeyOperator {
  if (typeof operator !== "object" || operator === null) throw new InvalidInputError("actor", "is missing; say who acts");
  knownOptions("operator", operator, operatorNames);
  const { actor, reason, actionId, dryRun } = operator;
  checkText("actor", actor);
  if (reason !== undefined) checkText("reason", reason);
  if (actionId !== undefined) checkActionId(actionId);
  if (dryRun !== undefined && typeof dryRun !== "boolean") throw new InvalidInputError("dryRun", "must be true or false");
  return operator;
}

function needsReason(operator: ForReason): void {
  if (typeof operator?.reason === "string" && operator.reason !== "") return;
  throw new InvalidInputError("reason", "is missing; say why, for the log of the key");
}

function refused({ scope, key, attempt }: LedgerRecord, because: KeyActionRefusedError["because"], why: string): KeyActionRefusedError {
  return new KeyActionRefusedError({ scope, key, attempt }, because, why);
}
