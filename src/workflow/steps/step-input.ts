import { InvalidInputError } from "../../core/errors/errors.js";
import { decode, encode } from "../../core/values/codec.js";
import { isRequest, isResponse } from "../../core/values/web-kinds.js";
import { underFormerNames } from "../define/registry.js";
import { encodablePart } from "../journal/arguments/encodable-part.js";
import type { StepStart } from "../journal/event.js";
import { fingerprint } from "../journal/identity.js";
import type { AbortLinks } from "./abort-links.js";

/** Arguments that are not longer than a hash are stored as they are. */
const printLengthMax = 22;

/**
 * The arguments of a step call and their fingerprint. Every attempt gets a copy: a body that changes its arguments must not
 * affect the workflow code, which would not see the change after a replay.
 */
export function inputOf(args: readonly unknown[], links?: AbortLinks): StepInput {
  const printed = links === undefined ? args : links.rest;
  const { print, partial, input } = copied(printed);
  return {
    print,
    partial,
    input: links === undefined ? input : () => links.join(input()),
    isFormerPrint: (journaled) => underFormerNames(() => copied(printed).print).includes(journaled),
  };
}

interface CopiedInput {
  readonly print: string;
  /** The fingerprint covers only a part of the arguments: the rest cannot be encoded. */
  readonly partial: boolean;
  readonly input: () => readonly unknown[];
}

export interface StepInput extends CopiedInput {
  /** Whether an earlier version computed this fingerprint from the arguments, with the former names of steps and workflows among them. */
  readonly isFormerPrint: (print: string) => boolean;
}

/** Whether two inputs are the same. `one` may have a fingerprint of an earlier version. */
export function isSameInput(one: StepInput, other: StepInput): boolean {
  return one.partial === other.partial && (one.print === other.print || other.isFormerPrint(one.print));
}

/** The input with the fingerprint of the journaled call. Undefined if the journaled call had another input. */
export function inputAsAsked({ fingerprint: journaled, partial }: StepStart, given: StepInput): StepInput | undefined {
  // Version 0.1.0 journaled an empty fingerprint if an argument could not be encoded.
  if (journaled === "" && !partial && given.partial) return given;
  if (partial !== given.partial) return undefined;
  if (journaled === given.print) return given;
  return given.isFormerPrint(journaled) ? { ...given, print: journaled } : undefined;
}

function copied(args: readonly unknown[]): CopiedInput {
  if (args.length === 0) return { print: "", partial: false, input: () => args };
  try {
    const text = encode(args);
    return { print: printOf(text), partial: false, input: () => decode(text) as unknown[] };
  } catch {
    // Functions and similar values can be neither copied nor compared: they are passed as they are, and the fingerprint omits them.
    return { print: printOf(encode(encodablePart(args))), partial: true, input: () => args.map(withUnreadBody) };
  }
}

function printOf(text: string): string {
  return text.length <= printLengthMax ? text : fingerprint(text);
}

/** The body of a Request or Response can be read once, so each attempt gets a clone. If it was already read, the step fails when it reads it. */
function withUnreadBody(arg: unknown): unknown {
  return (isRequest(arg) || isResponse(arg)) && !arg.bodyUsed && !arg.body?.locked ? arg.clone() : arg;
}

export function checkedKey(name: string, key: unknown): string {
  if (typeof key === "string" && key !== "" && key.length <= 256) return key;
  throw new InvalidInputError(`step "${name}": key`, "must return a string of 1 to 256 characters");
}
