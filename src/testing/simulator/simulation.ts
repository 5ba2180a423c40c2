import type { Store } from "../../core/store/store.js";
import type { EffectLedger } from "../effect-ledger.js";
import type { Fleet } from "./fleet.js";
import type { Plan } from "./plan.js";
import type { World } from "./world.js";

/** The parts of the world of one seed. */
export interface Simulation {
  readonly world: World;
  readonly plan: Plan;
  readonly fleet: Fleet;
  readonly effects: EffectLedger;
  /** A store handle without injected faults. */
  readonly calm: Store;
}
