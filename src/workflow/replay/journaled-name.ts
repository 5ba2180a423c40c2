import { callSite } from "../define/call-site.js";
import { AmbiguousNameError } from "../define/errors.js";
import { type Kind, presentName } from "../define/registry.js";
import type { Renamed } from "../define/renamed.js";
import type { Divergence } from "./divergence.js";

interface NamedCall {
  readonly kind: Kind;
  readonly renamed: Renamed;
  /** Whether the run has the call under this name. */
  readonly has: (name: string) => boolean;
}

/**
 * The name under which the run has journaled a call of this function. A call keeps its journaled name, so that providers see
 * the same idempotency key before and after an upgrade. Returns a divergence if several functions had the name, because a
 * guess could repeat an effect.
 */
export function journaledName({ kind, renamed: { name, former = [] }, has }: NamedCall): string | Divergence {
  if (former.length === 0 || has(name)) return name;
  try {
    return former.find((each) => has(each) && presentName(kind, each) === name) ?? name;
  } catch (error) {
    if (!(error instanceof AmbiguousNameError)) throw error;
    return { expected: `a call of the ${kind} "${error.stored}"`, found: error.message, where: callSite(), isAdvised: true };
  }
}
