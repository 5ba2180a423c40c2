import { InvalidInputError } from "../../core/errors/errors.js";
import type { OptionNames } from "../../core/errors/known-options.js";

export interface StreamOptions {
  /** Which stream of the run. Default: the one that `run.readable` is. */
  readonly namespace?: string;
}

export const streamOptionNames: OptionNames<StreamOptions> = { namespace: true };

/** What code written for the Workflow DevKit calls `StreamOptions`. */
export type WorkflowWritableStreamOptions = StreamOptions;

const nameCharsMax = 128;

/** Names that begin with "$" are our own: results that are streams, values that are put aside, answers to webhooks. */
export function streamName({ namespace = "default" }: StreamOptions): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters it refuses
  if (typeof namespace === "string" && /^[^$\u0000-\u001f\u007f][^\u0000-\u001f\u007f]*$/.test(namespace))
    if (namespace.length <= nameCharsMax && namespace.isWellFormed()) return namespace;
  throw new InvalidInputError("namespace", `must be 1 to ${nameCharsMax} printable characters, and not begin with "$"`);
}
