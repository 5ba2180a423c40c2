import type { Store } from "../../../core/store/store.js";
import type { MemoryTable } from "../../../stores/shared/memory-table.js";
import type { EffectLedger } from "../../effect-ledger.js";
import type { Storm } from "../workflow/run-faults.js";
import type { World } from "../world.js";
import type { CallWatch } from "./call-watch.js";
import type { GraphFleet } from "./graph-fleet.js";
import type { GraphPlan } from "./graph-plan.js";
import type { PacketObserver } from "./packet-observer.js";

/** The parts of the world of one seed, for flow graphs. */
export interface GraphSimulation {
  readonly world: World;
  readonly plan: GraphPlan;
  readonly storm: Storm;
  readonly table: MemoryTable;
  readonly observer: PacketObserver;
  readonly fleet: GraphFleet;
  readonly effects: EffectLedger;
  readonly watch: CallWatch;
  /** The execution number that `trigger` returned, by trigger key. */
  readonly reportedExecutions: Map<string, number>;
  /** A store handle without injected faults. */
  readonly calm: Store;
}
