import type { OptionNames } from "../../core/errors/known-options.js";
import type { HookConflictError } from "./errors.js";

/**
 * Something from outside that a workflow waits for. Awaited, it gives the next payload; as an async iterable, one after
 * the other. Payloads that come while the code does not await it are kept, in order.
 */
export interface Hook<Payload = unknown> extends PromiseLike<Payload>, AsyncIterable<Payload> {
  readonly token: string;
  /** The conflict, with the `runId` of the run that has the token, when the token belongs to another active hook; else null. */
  getConflict(): Promise<HookConflictError | null>;
  dispose(): void;
  [Symbol.dispose](): void;
}

export interface HookOptions {
  /** What the outside resumes it by. Unique while the hook exists. Default: one that cannot be guessed. */
  readonly token?: string;
  /** Kept with the hook, for callers that look it up by its token. */
  readonly metadata?: unknown;
}

export const hookOptionNames: OptionNames<HookOptions> = { token: true, metadata: true };

/** How a webhook differs from a hook: under what its token is stored, and what is stored with it. */
export interface WebhookPart {
  /** Throws for an unknown option. */
  readonly check: () => void;
  readonly storedAs: (token: string) => string;
  readonly urlOf: (token: string) => string;
  readonly metadata: (token: string) => Promise<string>;
}
