import type { Findings } from "../findings/finding.js";
import type { Components } from "../load/components.js";
import type { Spot } from "../load/tree.js";

/** Form A has `flows`; form B has `nodes` and `edges` at the top. */
export type Dialect = "A" | "B";

/** What every part of the normalisation is given. */
export interface Normalising {
  readonly findings: Findings;
  readonly components: Components;
  readonly dialect: Dialect;
}

/** Says that a spelling belongs to the other dialect. It is understood all the same. */
export function spelledIn(dialect: Dialect, spot: Spot | undefined, what: string, about: Normalising): void {
  if (spot === undefined || about.dialect === dialect) return;
  const ours = about.dialect === "A" ? "with `flows:`" : "with `nodes:` at the top";
  about.findings.add("FLOW_MIXED_DIALECTS", spot, `${what} is written as in the other dialect`, `choose one: this document is ${ours}`);
}
