import { InvalidInputError } from "../core/errors/errors.js";
import type { OptionNames } from "../core/errors/known-options.js";
import { checkName } from "../core/ledger/key.js";
import { duration, leaseMsMax, leaseMsMin, oneOf } from "../core/ledger/options.js";
import { canonicalJson, sha256 } from "../core/values/canonical.js";
import { encodeNamed } from "./progress.js";

/** Options of one run of a flow. */
export interface RunOptions {
  /** Names the operation: the same key at every retry, a different key for every other operation. Without a key nothing is stored. */
  readonly key?: string;
  /** How long the result can be replayed after the run ends. Default: forever. */
  readonly ttlMs?: number;
  /** False: the result is not stored, so the key only prevents concurrent runs. Default true. */
  readonly cacheResult?: boolean;
  /** The same as `onRunning: "throw"`. */
  readonly throwIfRunning?: boolean;
  /**
   * What to do while another call or process is running the flow under this key: return a result with status "running"
   * (default), throw FlowAlreadyRunningError, or wait for the result.
   */
  readonly onRunning?: "return" | "throw" | "wait";
  /** How long `onRunning: "wait"` waits before it returns a result with status "running". Default 30 s. */
  readonly waitMs?: number;
  /** What to do if the key was used with a different input: throw MismatchError (default), or return the stored result. */
  readonly onMismatch?: "throw" | "replay";
  /** How long this process may go without a heartbeat before another process can take over the run. Default 10 s. */
  readonly leaseMs?: number;
  /** True (default): after a crash the flow continues after its last completed step. False: it starts from the beginning. */
  readonly durable?: boolean;
  /** Cancels the run: no further step starts, and completed steps are compensated. */
  readonly signal?: AbortSignal;
}

export const runOptions: OptionNames<RunOptions> = {
  ...{ key: true, ttlMs: true, cacheResult: true, throwIfRunning: true, onRunning: true, waitMs: true, onMismatch: true, leaseMs: true },
  ...{ durable: true, signal: true },
};

/** A validated request for a keyed run, with all defaults filled in. */
export interface CheckedRun {
  readonly flow: string;
  readonly key: string;
  readonly scope: string;
  /** Encoded. */
  readonly input: string;
  readonly fingerprint: string | null;
  readonly retentionMs: number | null;
  readonly cacheResult: boolean;
  readonly onRunning: "return" | "throw" | "wait";
  readonly waitMs: number;
  readonly onMismatch: "throw" | "replay";
  readonly leaseMs: number;
  readonly durable: boolean;
  readonly signal: AbortSignal | undefined;
}

const dayMs = 86_400_000;

/** Validates all options before anything is written, and fills in the defaults. */
export async function checkRun(
  flow: string,
  scope: string,
  input: unknown,
  options: RunOptions & { readonly key: string },
): Promise<CheckedRun> {
  const { key, ttlMs, cacheResult = true, throwIfRunning = false, waitMs = 30_000, onMismatch = "throw", leaseMs = 10_000 } = options;
  const { onRunning = throwIfRunning ? "throw" : "return", durable = true, signal } = options;
  checkName("key", key);
  if (ttlMs !== undefined) duration("ttlMs", ttlMs, 1);
  duration("waitMs", waitMs);
  duration("leaseMs", leaseMs, leaseMsMin, leaseMsMax);
  oneOf("onRunning", onRunning, ["return", "throw", "wait"]);
  oneOf("onMismatch", onMismatch, ["throw", "replay"]);
  for (const [name, value] of Object.entries({ cacheResult, throwIfRunning, durable }))
    if (typeof value !== "boolean") throw new InvalidInputError(name, `must be true or false, not ${String(value)}`);
  if (throwIfRunning && onRunning !== "throw") throw new InvalidInputError("throwIfRunning", `contradicts onRunning: "${onRunning}"`);
  // The record of a key without a stored result must expire, too.
  const retentionMs = ttlMs ?? (cacheResult ? null : dayMs);
  const encoded = await encodeNamed("input", input);
  const fingerprint = fingerprintOf(flow, input, encoded);
  return {
    flow,
    key,
    scope,
    input: encoded,
    fingerprint,
    retentionMs,
    cacheResult,
    onRunning,
    waitMs,
    onMismatch,
    leaseMs,
    durable,
    signal,
  };
}

/**
 * Includes the name of the flow: another flow under the same key is a different operation. An input that JSON cannot
 * represent exactly (with a Date, a Map, undefined) is hashed in its encoded form, where the order of members matters.
 */
function fingerprintOf(flow: string, input: unknown, encoded: string): string {
  try {
    return sha256(canonicalJson({ flow, input }, "input"));
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    return sha256(canonicalJson([flow, encoded], "input"));
  }
}
