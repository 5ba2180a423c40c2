import { closest } from "./closest.js";
import { InvalidInputError } from "./errors.js";

/** The names that an options object may have. A record, so that the compiler finds an option that was left out. */
export type OptionNames<Options> = Readonly<Record<keyof Required<Options> & string, true>>;

/** Refuses a name that is not an option: ignoring it would leave the caller without what it asked for. */
export function knownOptions(where: string, given: object, known: Readonly<Record<string, true>>): void {
  const unknown = unknownOption(given, known);
  if (unknown !== undefined) throw new InvalidInputError(`${where}: ${unknown.name}`, unknown.advice);
}

const warned = new Set<string>();
const warnedMax = 1000;

/** The same for code of a run, which may have been going on like that since before the name was checked. */
export function warnOfUnknownOption(where: string, given: object, known: Readonly<Record<string, true>>): void {
  const unknown = unknownOption(given, known);
  if (unknown === undefined) return;
  const message = `${where}: ${unknown.name} ${unknown.advice}`;
  // A step that is retried, or code that is replayed, has one mistake, not many.
  if (warned.has(message) || warned.size >= warnedMax) return;
  warned.add(message);
  process.emitWarning(message, { type: "OnceflowWarning", code: "ONCEFLOW_UNKNOWN_OPTION" });
}

function unknownOption(given: object, known: Readonly<Record<string, true>>) {
  for (const [name, value] of Object.entries(given))
    if (!Object.hasOwn(known, name) && value !== undefined) return { name, advice: adviceOn(name, Object.keys(known)) };
  return undefined;
}

/** The option that a name was probably meant to be: misspelt, a part of it ("retries"), or with the same beginning ("maxRetry"). */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const near = closest(name, known);
  if (near !== undefined || name.length < partMin) return near;
  return known.find((each) => isPart(name.toLowerCase(), each.toLowerCase()));
}

const partMin = 4;

function isPart(name: string, option: string): boolean {
  return option.includes(name) || (name.length > partMin + 1 && option.startsWith(name.slice(0, -1)));
}

function adviceOn(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  return near === undefined ? `is not an option; options: ${known.join(", ")}` : `is not an option; did you mean "${near}"?`;
}
