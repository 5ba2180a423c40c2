import { decode, encode } from "../core/codec.js";
import { InvalidInputError } from "../core/errors.js";
import { isRequest, isResponse } from "../core/web-kinds.js";
import type { AbortLinks } from "./abort-links.js";
import { fingerprint } from "./identity.js";

/** What is no longer than a hash needs none. */
const printLengthMax = 22;

/**
 * What a body is given, and its fingerprint. A copy at every attempt: what a body does to its arguments must not reach
 * the code, which after a replay would not see it.
 */
export function inputOf(args: readonly unknown[], links?: AbortLinks): StepInput {
  if (links === undefined) return copied(args);
  const { print, input } = copied(links.rest);
  return { print, input: () => links.join(input()) };
}

export interface StepInput {
  readonly print: string;
  readonly input: () => readonly unknown[];
}

function copied(args: readonly unknown[]): StepInput {
  if (args.length === 0) return { print: "", input: () => args };
  try {
    const text = encode(args);
    return { print: text.length <= printLengthMax ? text : fingerprint(text), input: () => decode(text) as unknown[] };
  } catch {
    // Functions and the like can be neither copied nor compared; the order of the calls has to do.
    return { print: "", input: () => args.map(unread) };
  }
}

/** A body can be read once: each attempt gets one of its own. One that was read already is the body's to complain about. */
function unread(arg: unknown): unknown {
  return (isRequest(arg) || isResponse(arg)) && !arg.bodyUsed && !arg.body?.locked ? arg.clone() : arg;
}

export function checkedKey(name: string, key: unknown): string {
  if (typeof key === "string" && key !== "" && key.length <= 256) return key;
  throw new InvalidInputError(`step "${name}": key`, "must return a string of 1 to 256 characters");
}
