import { InvalidInputError } from "../core/errors/errors.js";
import type { OptionNames } from "../core/errors/known-options.js";
import { checkName } from "../core/ledger/key.js";
import { duration, leaseMsMax, leaseMsMin, oneOf } from "../core/ledger/options.js";
import { canonicalJson, sha256 } from "../core/values/canonical.js";
import { encodeNamed } from "./progress.js";

export interface RunOptions {
  /** Names the operation: the same at every retry, another one for every other operation. Without it nothing is stored. */
  readonly key?: string;
  /** How long the result can be replayed, from its end. Default: for ever. */
  readonly ttlMs?: number;
  /** False: the key only keeps others out while the flow runs. Default true. */
  readonly cacheResult?: boolean;
  /** The same as `onRunning: "throw"`. */
  readonly throwIfRunning?: boolean;
  /** While somebody else runs it: say so (default), throw FlowAlreadyRunningError, or wait for the result. */
  readonly onRunning?: "return" | "throw" | "wait";
  /** How long to wait. Default 30 s, then the result is "running". */
  readonly waitMs?: number;
  /** The same key with another input: MismatchError (default), or the stored result all the same. */
  readonly onMismatch?: "throw" | "replay";
  /** How long this process may fall silent before others take the run over. Default 10 s. */
  readonly leaseMs?: number;
  /** False: a crash begins the flow anew. Default true: after one it goes on behind the last completed step. */
  readonly durable?: boolean;
  /** Cancels the run: nothing more begins, and what was done is undone. */
  readonly signal?: AbortSignal;
}

export const runOptions: OptionNames<RunOptions> = {
  ...{ key: true, ttlMs: true, cacheResult: true, throwIfRunning: true, onRunning: true, waitMs: true, onMismatch: true, leaseMs: true },
  ...{ durable: true, signal: true },
};

/** A keyed run as asked for, checked. */
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

/** Checks everything before anything is written, and fills in the defaults. */
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
  // A key that keeps nothing must not be kept for ever itself.
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
 * The flow's name is part of it: another flow under the same key is another operation. What JSON can't hold exactly (a
 * Date, a Map, undefined) goes by its encoded text, in which the order of members counts.
 */
function fingerprintOf(flow: string, input: unknown, encoded: string): string {
  try {
    return sha256(canonicalJson({ flow, input }, "input"));
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    return sha256(canonicalJson([flow, encoded], "input"));
  }
}
