import type { Store } from "../../../core/store/store.js";
import type { MemoryRuns } from "../../../stores/memory/runs/table.js";
import type { EffectLedger } from "../../effect-ledger.js";
import type { World } from "../world.js";
import type { ActionBook } from "./action-book.js";
import type { BodyWatch } from "./body-watch.js";
import type { WorkflowFleet } from "./fleet.js";
import type { KnownRun } from "./known-run.js";
import type { WorkflowPlan } from "./plan.js";
import type { Refusals } from "./refusals.js";
import type { Storm } from "./run-faults.js";
import type { RunObserver } from "./run-observer.js";
import type { Play } from "./script.js";
import type { BusinessRows } from "./transactions.js";

/** The parts of the world of one seed, for workflows. */
export interface WorkflowSimulation {
  readonly world: World;
  readonly plan: WorkflowPlan;
  readonly storm: Storm;
  readonly memory: MemoryRuns;
  /** The rows that transactional steps have committed. */
  readonly rows: BusinessRows;
  readonly observer: RunObserver;
  readonly fleet: WorkflowFleet;
  readonly effects: EffectLedger;
  readonly refusals: Refusals;
  readonly watch: BodyWatch;
  readonly play: Play;
  /** The attempts that an operator has successfully resolved. */
  readonly resolutions: Map<string, { readonly run: KnownRun; readonly id: string; readonly attempt: number }>;
  readonly actions: ActionBook;
  /** A store handle without injected faults. */
  readonly calm: Store;
}
