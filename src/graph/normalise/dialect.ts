import type { Findings } from "../findings/finding.js";
import type { Components } from "../load/components.js";
import type { Spot } from "../load/tree.js";

/** Form A has `flows`; form B has `nodes` and `edges` at the top level. */
export type Dialect = "A" | "B";

/** Context of all functions that normalise a document. */
export interface Normalising {
  readonly findings: Findings;
  readonly components: Components;
  readonly dialect: Dialect;
}

/** Reports a field of the other dialect, which is accepted nevertheless. */
export function spelledIn(dialect: Dialect, spot: Spot | undefined, what: string, about: Normalising): void {
  if (spot === undefined || about.dialect === dialect) return;
  const ours = about.dialect === "A" ? "the one with `flows:`" : "the one with `nodes:` at the top level";
  about.findings.add("FLOW_MIXED_DIALECTS", spot, `${what} belongs to the other dialect`, `use one dialect; this document uses ${ours}`);
}
