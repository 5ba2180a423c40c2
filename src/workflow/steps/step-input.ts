import { InvalidInputError } from "../../core/errors/errors.js";
import { decode, encode } from "../../core/values/codec.js";
import { isRequest, isResponse } from "../../core/values/web-kinds.js";
import { underFormerNames } from "../define/registry.js";
import { encodablePart } from "../journal/encodable-part.js";
import type { StepStart } from "../journal/event.js";
import { fingerprint } from "../journal/identity.js";
import type { AbortLinks } from "./abort-links.js";

/** What is no longer than a hash needs none. */
const printLengthMax = 22;

/**
 * What a body is given, and its fingerprint. A copy at every attempt: what a body does to its arguments must not reach
 * the code, which after a replay would not see it.
 */
export function inputOf(args: readonly unknown[], links?: AbortLinks): StepInput {
  const printed = links === undefined ? args : links.rest;
  const isFormerPrint = (journaled: string) => underFormerNames(() => copied(printed).print).includes(journaled);
  const copy = copied(printed);
  return { ...copy, input: links === undefined ? copy.input : () => links.join(copy.input()), isFormerPrint };
}

interface Copied {
  readonly print: string;
  /** The fingerprint is of a part of the arguments: the rest cannot be encoded. */
  readonly partial: boolean;
  readonly input: () => readonly unknown[];
}

export interface StepInput extends Copied {
  /** Whether an earlier version wrote this one for the arguments: with the names that steps and workflows among them had then. */
  readonly isFormerPrint: (print: string) => boolean;
}

/** `one` may have the print that an earlier version wrote. */
export function isSameInput(one: StepInput, other: StepInput): boolean {
  return one.partial === other.partial && (one.print === other.print || other.isFormerPrint(one.print));
}

/** The input with the print that the journaled call has. Undefined: the call had another input, as far as the journal can tell. */
export function inputAsAsked({ fingerprint: journaled, partial }: StepStart, given: StepInput): StepInput | undefined {
  // As 0.1.0 journaled a call with an argument that cannot be encoded.
  if (journaled === "" && !partial && given.partial) return given;
  if (partial !== given.partial) return undefined;
  if (journaled === given.print) return given;
  return given.isFormerPrint(journaled) ? { ...given, print: journaled } : undefined;
}

function copied(args: readonly unknown[]): Copied {
  if (args.length === 0) return { print: "", partial: false, input: () => args };
  try {
    const text = encode(args);
    return { print: printOf(text), partial: false, input: () => decode(text) as unknown[] };
  } catch {
    // Functions and the like can be neither copied nor compared: they are handed over as they are, and left out of the print.
    return { print: printOf(encode(encodablePart(args))), partial: true, input: () => args.map(unread) };
  }
}

function printOf(text: string): string {
  return text.length <= printLengthMax ? text : fingerprint(text);
}

/** A body can be read once: each attempt gets one of its own. One that was read already is the body's to complain about. */
function unread(arg: unknown): unknown {
  return (isRequest(arg) || isResponse(arg)) && !arg.bodyUsed && !arg.body?.locked ? arg.clone() : arg;
}

export function checkedKey(name: string, key: unknown): string {
  if (typeof key === "string" && key !== "" && key.length <= 256) return key;
  throw new InvalidInputError(`step "${name}": key`, "must return a string of 1 to 256 characters");
}
