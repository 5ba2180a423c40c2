import type { Store } from "../../core/store/store.js";
import type { EffectLedger } from "../effect-ledger.js";
import type { Fleet } from "./fleet.js";
import type { Plan } from "./plan.js";
import type { World } from "./world.js";

/** All parts of one seed's world. */
export interface Simulation {
  readonly world: World;
  readonly plan: Plan;
  readonly fleet: Fleet;
  readonly effects: EffectLedger;
  /** A handle with no faults, for those who only look. */
  readonly calm: Store;
}
