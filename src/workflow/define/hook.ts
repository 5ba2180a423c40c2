import type { OptionNames } from "../../core/errors/known-options.js";
import type { HookConflictError } from "./errors.js";

/**
 * A point where a workflow waits for external input, sent by `resumeHook`. `await hook` gives the next payload; `for await`
 * iterates all payloads. Payloads that arrive while the code does not wait are kept in order. If the token is in use by
 * another active hook, awaiting rejects with HookConflictError.
 */
export interface Hook<Payload = unknown> extends PromiseLike<Payload>, AsyncIterable<Payload> {
  /** Identifies the hook to callers of `resumeHook`. */
  readonly token: string;
  /** Resolves to the conflict, with the `runId` of the other run, if another active hook has the token; otherwise to null. */
  getConflict(): Promise<HookConflictError | null>;
  /** Frees the token. The hook receives no more payloads. */
  dispose(): void;
  [Symbol.dispose](): void;
}

/** Options of `createHook`. */
export interface HookOptions {
  /** Token that callers pass to `resumeHook`. Must be unique while the hook exists. Default: a random token that cannot be guessed. */
  readonly token?: string;
  /** Stored with the hook and returned by `getHookByToken`. */
  readonly metadata?: unknown;
}

export const hookOptionNames: OptionNames<HookOptions> = { token: true, metadata: true };

/** How a webhook differs from a plain hook: the stored form of its token, its URL, and its metadata. */
export interface WebhookPart {
  /** Throws for an unknown option. */
  readonly check: () => void;
  readonly storedAs: (token: string) => string;
  readonly urlOf: (token: string) => string;
  readonly metadata: (token: string) => Promise<string>;
}
