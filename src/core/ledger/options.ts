import { InvalidInputError } from "../errors/errors.js";
import { inShort } from "../errors/in-short.js";
import { knownOptions, type OptionNames } from "../errors/known-options.js";
import type { TxRunner } from "../store/store.js";
import { canonicalJson, sha256 } from "../values/canonical.js";
import { checkName, type Key } from "./key.js";
import type { Begin } from "./operation.js";
import { type EffectClass, effectClasses } from "./record.js";

export interface ReconcileRequest<Input> {
  readonly scope: string;
  readonly key: string;
  /** What the provider was given as its idempotency key. */
  readonly effectKey: string;
  /** The attempt whose outcome is in doubt. */
  readonly attempt: number;
  readonly input: Input;
}

/** What the other side says about an attempt in doubt. */
export type Reconciled<Value> =
  | { readonly found: Value }
  /** It did not happen, and can't happen any more: run it. */
  | "absent"
  /** It can't be told: the outcome stays unknown. */
  | "unknown";

export interface OnceOptions<Value = unknown, Input = unknown> {
  /** Names the operation. The same at every retry, another one for every other operation. */
  readonly key: Key;
  /** Tenant or namespace; keys in two scopes never meet. Default "". */
  readonly scope?: string;
  /** What is asked; its hash is the fingerprint. The same key with another input is refused. */
  readonly input?: Input;
  /** Instead of `input`: what counts as the same request. */
  readonly fingerprint?: string;
  /** How long this process may fall silent before others may take over. Default 10 s. */
  readonly leaseMs?: number;
  /** How long the outcome can be replayed, from its end; then the key runs again. Default 24 h: many providers retry for longer. */
  readonly retentionMs?: number | "forever";
  /** How long after that a late retry is still refused. Default 0. */
  readonly horizonMs?: number;
  /** What to do when an attempt died midway or threw. Default "idempotent". */
  readonly effect?: EffectClass;
  /** Asks the other side about an attempt in doubt; goes with `effect: "reconcile"`. */
  readonly reconcile?: (request: ReconcileRequest<Input>) => Promise<Reconciled<Value>> | Reconciled<Value>;
  /** How long after an attempt fell silent the other side's answer can be trusted. Default: one lease. */
  readonly reconcileAfterMs?: number;
  /** When somebody else is running it: wait for the outcome (default), return `running`, or throw RunningError. */
  readonly onRunning?: "wait" | "return" | "throw";
  /** How long to wait. Default 30 s, then RunningError. */
  readonly waitMs?: number;
  /** Store what the handler throws, and throw it again at replays. Default: the key is free for a retry. */
  readonly keepFailures?: boolean;
  /** Ends the waiting, and aborts the attempt's own signal. */
  readonly signal?: AbortSignal;
  /**
   * The settle rides the handler's transaction (SQLite, PostgreSQL): business rows and outcome commit together.
   * `true`: a transaction of the store's own, as `attempt.tx`. A function: your database layer's, in the same database.
   */
  readonly tx?: true | TxRunner;
}

const optionNames: OptionNames<OnceOptions> = {
  key: true,
  scope: true,
  input: true,
  fingerprint: true,
  leaseMs: true,
  retentionMs: true,
  horizonMs: true,
  effect: true,
  reconcile: true,
  reconcileAfterMs: true,
  onRunning: true,
  waitMs: true,
  keepFailures: true,
  signal: true,
  tx: true,
};

const secondMs = 1000;
const hourMs = 3600 * secondMs;
export const leaseMsMin = 50;
export const leaseMsMax = hourMs;
/** Beyond this, sums of instants and durations leave the range in which milliseconds are exact. */
const durationMsMax = 100 * 366 * 24 * hourMs;

export interface Prepared {
  readonly begin: Omit<Begin, "owner">;
  readonly onRunning: "wait" | "return" | "throw";
  readonly waitMs: number;
}

/** Checks everything before anything is written, and fills in the defaults. */
export function prepare(options: OnceOptions): Prepared {
  knownOptions("once", options, optionNames);
  const { key, scope = "", effect = "idempotent", leaseMs = 10 * secondMs, retentionMs = 24 * hourMs, onRunning = "wait" } = options;
  checkName("key", key);
  checkName("scope", scope);
  duration("leaseMs", leaseMs, leaseMsMin, leaseMsMax);
  if (retentionMs !== "forever") duration("retentionMs", retentionMs);
  const { horizonMs = 0, waitMs = 30 * secondMs, reconcileAfterMs = leaseMs } = options;
  duration("horizonMs", horizonMs);
  duration("waitMs", waitMs);
  duration("reconcileAfterMs", reconcileAfterMs);
  oneOf("effect", effect, effectClasses);
  oneOf("onRunning", onRunning, ["wait", "return", "throw"]);
  if ((effect === "reconcile") !== (typeof options.reconcile === "function"))
    throw new InvalidInputError("reconcile", 'must be a function when, and only when, effect is "reconcile"');
  const { tx } = options;
  if (tx !== undefined && tx !== true && typeof tx !== "function")
    throw new InvalidInputError("tx", "must be true or a function that runs its argument in a transaction");
  const fingerprint = fingerprintOf(options);
  const begin = {
    verb: "begin" as const,
    scope,
    key,
    fingerprint,
    effect,
    leaseMs,
    retentionMs: retentionMs === "forever" ? null : retentionMs,
    horizonMs,
    reconcileAfterMs,
    over: null,
    progress: null,
  };
  return { begin, onRunning, waitMs };
}

function fingerprintOf({ input, fingerprint }: OnceOptions): string | null {
  if (fingerprint === undefined) return input === undefined ? null : sha256(canonicalJson(input, "input"));
  if (typeof fingerprint !== "string" || fingerprint === "") throw new InvalidInputError("fingerprint", "must be a non-empty string");
  return sha256(fingerprint);
}

export function duration(field: string, value: unknown, min = 0, max = durationMsMax): asserts value is number {
  if (typeof value !== "number" || !Number.isFinite(value) || value < min || value > max || !Number.isInteger(value))
    throw new InvalidInputError(field, `must be a whole number of milliseconds from ${min} to ${max}, not ${inShort(value)}`);
}

export function oneOf<T extends string>(field: string, value: unknown, allowed: readonly T[]): asserts value is T {
  if (!allowed.some((a) => a === value))
    throw new InvalidInputError(field, `must be one of ${allowed.map((a) => `"${a}"`).join(", ")}, not ${JSON.stringify(value)}`);
}
