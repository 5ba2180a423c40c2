import type { Store } from "../../../core/store/store.js";
import type { MemoryTable } from "../../../stores/shared/memory-table.js";
import type { EffectLedger } from "../../effect-ledger.js";
import type { Storm } from "../workflow/run-faults.js";
import type { World } from "../world.js";
import type { CallWatch } from "./call-watch.js";
import type { GraphFleet } from "./graph-fleet.js";
import type { GraphPlan } from "./graph-plan.js";
import type { PacketObserver } from "./packet-observer.js";

/** The parts of one simulated world of packets. */
export interface GraphSimulation {
  readonly world: World;
  readonly plan: GraphPlan;
  readonly storm: Storm;
  readonly table: MemoryTable;
  readonly observer: PacketObserver;
  readonly fleet: GraphFleet;
  readonly effects: EffectLedger;
  readonly watch: CallWatch;
  /** The execution that senders were told of, by the key of their trigger. */
  readonly told: Map<string, number>;
  /** A handle with no faults. */
  readonly calm: Store;
}
