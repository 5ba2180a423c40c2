import type { Execution } from "../execute/execution.js";
import { callSite } from "./call-site.js";
import { AmbiguousNameError } from "./errors.js";
import { type Kind, presentName } from "./registry.js";

/** A function with the names that earlier versions of this package gave it. */
export interface Renamed {
  readonly name: string;
  readonly former?: readonly string[];
}

/**
 * The name under which the run has a call of this function: a call keeps the name that it was journaled under, so that
 * the other side sees one idempotency key before and after an upgrade. `has` says whether the run has the call under a
 * name. Undefined when the name belongs to several functions: the run is parked, because a guess could repeat an effect.
 */
export function journaledName(
  execution: Execution,
  kind: Kind,
  { name, former = [] }: Renamed,
  has: (name: string) => boolean,
): string | undefined {
  if (former.length === 0 || has(name)) return name;
  try {
    return former.find((each) => has(each) && presentName(kind, each) === name) ?? name;
  } catch (error) {
    if (!(error instanceof AmbiguousNameError)) throw error;
    execution.parking.diverged({
      expected: `a call of the ${kind} "${error.stored}"`,
      found: error.message,
      where: callSite(),
      isAdvised: true,
    });
    return undefined;
  }
}

/** Whether a run is stored as one of this workflow, under its name or a former one. */
export function isStoredAs({ name, former = [] }: Renamed, stored: string): boolean {
  return stored === name || (former.includes(stored) && presentName("workflow", stored) === name);
}
