import type { Conditions } from "../conditions.js";
import type { SleepSample } from "./contender.js";
import type { DurableCounts } from "./durable-counts.js";
import { type Entrant, type LeftOut, names, type StoreName } from "./entrants.js";
import type { Crew, Recovery } from "./ours-only.js";
import type { Taken } from "./passes.js";
import type { Plan } from "./plan.js";
import type { StepPrice } from "./step-price.js";

/** All measurements. */
export interface Results {
  readonly conditions: Conditions;
  readonly plan: Plan;
  readonly taken: readonly Taken[];
  readonly counts: readonly { readonly entrant: Entrant; readonly counts: readonly DurableCounts[] }[];
  readonly sleepers: readonly { readonly entrant: Entrant; readonly sample: SleepSample }[];
  readonly prices: readonly StepPrice[];
  readonly crews: readonly Crew[];
  readonly recoveries: readonly Recovery[];
  readonly leftOut: readonly LeftOut[];
}

export function takenBy({ taken }: Pick<Results, "taken">, name: string, store: StoreName): Taken | undefined {
  return taken.find(({ entrant, longs }) => entrant.name === name && entrant.store === store && longs.length > 0);
}

/** The peers that our library is compared with on each store, and the store that they use. */
export const rivals: Readonly<Record<"postgres" | "sqlite", readonly (readonly [name: string, store: StoreName])[]>> = {
  postgres: [
    [names.dbos, "postgres"],
    [names.openworkflow, "postgres"],
  ],
  sqlite: [[names.restate, "own"]],
};
