import { createStore } from "../../../core/create-store.js";
import type { RunBackend } from "../../../core/run-operation.js";
import type { Worker } from "../../../workflow/worker.js";
import { work, workerOf } from "../../../workflow/workers.js";
import { type Born, type Host, HostFleet } from "../host-fleet.js";
import type { World } from "../world.js";
import type { WorkflowPlan } from "./plan.js";
import { type Storm, type WithRuns, withRunFaults } from "./run-faults.js";
import type { Play } from "./script.js";

/** A process with perhaps a worker on its store. */
export interface WorkflowHost extends Host {
  readonly worker: Worker | undefined;
  /** Its code is another one. */
  readonly strange: boolean;
}

export interface FleetOptions {
  readonly world: World;
  readonly plan: WorkflowPlan;
  readonly storm: Storm;
  readonly server: WithRuns;
  /** Between each process's engine and its connection. */
  readonly engine: (runs: RunBackend) => RunBackend;
  readonly play: () => Pick<Play, "workflow" | "strange">;
  readonly note: (line: () => string) => void;
}

export class WorkflowFleet extends HostFleet<WorkflowHost> {
  readonly #options: FleetOptions;
  readonly #owners = new Map<string, WorkflowHost>();
  /** How far the store's clock is ahead of the world's, and when it last jumped. */
  ahead = 0;
  jumpedAt = Number.NEGATIVE_INFINITY;

  constructor(options: FleetOptions) {
    super(options);
    this.#options = options;
  }

  /** Whose worker this is. */
  of(owner: string): WorkflowHost {
    const host = this.#owners.get(owner);
    if (host === undefined) throw new Error(`nobody is ${owner}`);
    return host;
  }

  nameOf(owner: string | null): string {
    const host = owner === null ? undefined : this.#owners.get(owner);
    return host ? `p${host.process.id}` : "nobody";
  }

  isStrange(owner: string): boolean {
    return this.#owners.get(owner)?.strange ?? false;
  }

  jump(ms: number): void {
    this.ahead += ms;
    this.jumpedAt = this.#options.world.now();
  }

  protected override start({ process, died, slot, die }: Born): WorkflowHost {
    const { world, plan, storm, server, engine, play, note } = this.#options;
    const { runs, ...ledger } = withRunFaults(server, { world, process, storm, die });
    const store = createStore({ ...ledger, runs: engine(runs) }, { clock: process.clock, purgeEveryMs: 0 });
    const { worker, concurrency, ...planned } = plan.slots[slot] as WorkflowPlan["slots"][number];
    const strange = planned.strange && !storm.over;
    if (worker) {
      const random = () => world.random.next();
      const workflow = strange ? play().strange : play().workflow;
      void work(store, { workflows: [workflow], leaseMs: plan.leaseMs, concurrency, random });
    }
    const host = { process, store, worker: workerOf(store), strange, died };
    if (host.worker) this.#owners.set(host.worker.owner, host);
    note(() => `p${process.id} boots in slot ${slot}${worker ? "" : ", without a worker"}`);
    return host;
  }

  protected override isUp(): boolean {
    return true;
  }

  protected override async stop({ worker, store }: WorkflowHost, graceMs: number): Promise<void> {
    await worker?.stop({ graceMs });
    await store.close();
  }

  /** Nor does anybody run other code. */
  override recover(): void {
    for (const { process, strange } of this.#owners.values()) if (strange) this.end(process, "goes, for its code is replaced");
    super.recover();
  }
}
