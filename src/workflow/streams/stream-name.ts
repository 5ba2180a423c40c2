import { InvalidInputError } from "../../core/errors/errors.js";
import type { OptionNames } from "../../core/errors/known-options.js";

/** Selects a stream of a run. */
export interface StreamOptions {
  /** Name of the stream. Default: the stream that `run.readable` reads. */
  readonly namespace?: string;
}

export const streamOptionNames: OptionNames<StreamOptions> = { namespace: true };

/** The name of `StreamOptions` in the Workflow DevKit. */
export type WorkflowWritableStreamOptions = StreamOptions;

const nameCharsMax = 128;

/** Names that begin with "$" are reserved: for streams in results of steps, and for long values stored beside the journal. */
export function streamName({ namespace = "default" }: StreamOptions): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters it refuses
  if (typeof namespace === "string" && /^[^$\u0000-\u001f\u007f][^\u0000-\u001f\u007f]*$/.test(namespace))
    if (namespace.length <= nameCharsMax && namespace.isWellFormed()) return namespace;
  throw new InvalidInputError("namespace", `must be 1 to ${nameCharsMax} printable characters, and not begin with "$"`);
}
