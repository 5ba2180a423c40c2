import { closest } from "./closest.js";
import { InvalidInputError } from "./errors.js";

/** The option names of an options type. A record, so that forgetting an option does not compile. */
export type OptionNames<Options> = Readonly<Record<keyof Required<Options> & string, true>>;

/** Throws InvalidInputError for an unknown option name: ignoring a misspelt option would silently drop what the caller asked for. */
export function knownOptions(where: string, given: object, known: Readonly<Record<string, true>>): void {
  const unknown = unknownOption(given, known);
  if (unknown !== undefined) throw new InvalidInputError(`${where}: ${unknown.name}`, unknown.advice);
}

const warned = new Set<string>();
const warnedMax = 1000;

/** Like `knownOptions`, but warns instead of throwing: a run may have been started by a version that did not check the name. */
export function warnOfUnknownOption(where: string, given: object, known: Readonly<Record<string, true>>): void {
  const unknown = unknownOption(given, known);
  if (unknown === undefined) return;
  const message = `${where}: ${unknown.name} ${unknown.advice}`;
  // Once per message: retried steps and replayed code would repeat it.
  if (warned.has(message) || warned.size >= warnedMax) return;
  warned.add(message);
  process.emitWarning(message, { type: "OnceflowWarning", code: "ONCEFLOW_UNKNOWN_OPTION" });
}

function unknownOption(given: object, known: Readonly<Record<string, true>>) {
  for (const [name, value] of Object.entries(given))
    if (!Object.hasOwn(known, name) && value !== undefined) return { name, advice: adviceOn(name, Object.keys(known)) };
  return undefined;
}

/** Returns the option that `name` probably means: a misspelling, a part of the option ("retries") or its beginning ("maxRetry"). */
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
