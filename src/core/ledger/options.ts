import { InvalidInputError } from "../errors/errors.js";
import { inShort } from "../errors/in-short.js";
import { knownOptions, type OptionNames } from "../errors/known-options.js";
import type { TxRunner } from "../store/store.js";
import { canonicalJson, sha256 } from "../values/canonical.js";
import { checkName, type Key } from "./key.js";
import type { Begin } from "./operation.js";
import { type EffectClass, effectClasses } from "./record.js";

/** What the option `reconcile` is called with: the attempt whose outcome is unknown. */
export interface ReconcileRequest<Input> {
  readonly scope: string;
  readonly key: string;
  /** The idempotency key that the attempt passed to the provider. */
  readonly effectKey: string;
  /** Number of the attempt whose outcome is unknown. */
  readonly attempt: number;
  readonly input: Input;
}

/** What the external system says about an attempt whose outcome is unknown. */
export type Reconciled<Value> =
  /** The effect happened, with this result. */
  | { readonly found: Value }
  /** The effect did not happen and cannot happen any more: the operation runs again. */
  | "absent"
  /** The external system cannot say: the outcome stays unknown. */
  | "unknown";

/** Options of `once`. Only `key` is required. */
export interface OnceOptions<Value = unknown, Input = unknown> {
  /** Names the operation: the same at every retry, different for every other operation. */
  readonly key: Key;
  /** Tenant or namespace: the same key in two scopes is two operations. Default "". */
  readonly scope?: string;
  /** The request; its hash is the fingerprint. The same key with a different input throws MismatchError. */
  readonly input?: Input;
  /** Used in place of `input` to recognize the same request. */
  readonly fingerprint?: string;
  /** How long this process may go without renewing before another may take over. Default 10 s. */
  readonly leaseMs?: number;
  /**
   * How long after its end the outcome can be replayed; after that the key runs again. Default 24 h, which is shorter than many
   * providers retry.
   */
  readonly retentionMs?: number | "forever";
  /** How long after the retention a late retry is still refused (GoneError). Default 0. */
  readonly horizonMs?: number;
  /** What may happen after an attempt crashed or threw. Default "idempotent". */
  readonly effect?: EffectClass;
  /** Asks the external system whether an unknown attempt happened. Required with, and only with, `effect: "reconcile"`. */
  readonly reconcile?: (request: ReconcileRequest<Input>) => Promise<Reconciled<Value>> | Reconciled<Value>;
  /** How long after an attempt's lease expired the external system's answer can be trusted. Default: `leaseMs`. */
  readonly reconcileAfterMs?: number;
  /** If another attempt is running: wait for its outcome (default), return `running`, or throw RunningError. */
  readonly onRunning?: "wait" | "return" | "throw";
  /** How long to wait for another attempt before RunningError is thrown. Default 30 s. */
  readonly waitMs?: number;
  /** True: store the handler's error and throw it again at replays. Default false: after an error the key is free for a retry. */
  readonly keepFailures?: boolean;
  /** Aborts waiting, and aborts the attempt's own signal. */
  readonly signal?: AbortSignal;
  /**
   * Settles the key in the handler's transaction, so that business rows and outcome commit together (SQLite, PostgreSQL).
   * `true`: the store opens a transaction and passes it as `attempt.tx`. A function: runs its argument in a transaction of your own
   * database layer, in the same database.
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
/** Above this, sums of instants and durations exceed the range of exact milliseconds. */
const durationMsMax = 100 * 366 * 24 * hourMs;

export interface Prepared {
  readonly begin: Omit<Begin, "owner">;
  readonly onRunning: "wait" | "return" | "throw";
  readonly waitMs: number;
}

/** Checks every option before anything is written, and fills in the defaults. */
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
