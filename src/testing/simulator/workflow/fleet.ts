import type { RunBackend } from "../../../core/runs/operation.js";
import { createStore } from "../../../core/store/create-store.js";
import type { Workflow } from "../../../workflow/define/definition.js";
import { workerOf } from "../../../workflow/process/local-worker.js";
import type { Worker } from "../../../workflow/worker/worker.js";
import { work } from "../../../workflow/worker/workers.js";
import { type Born, type Host, HostFleet } from "../host-fleet.js";
import type { World } from "../world.js";
import type { Version, WorkflowPlan } from "./plan.js";
import type { Program } from "./program.js";
import { type Storm, type WithRuns, withRunFaults } from "./run-faults.js";

/** A process with perhaps a worker on its store. */
export interface WorkflowHost extends Host {
  readonly worker: Worker | undefined;
  /** Its code is another one. */
  readonly strange: boolean;
  /** Undefined where all processes have one version. */
  readonly version: Version | undefined;
  readonly die: (why: string) => void;
}

/** The one workflow of a world, as its processes have it. */
export interface SimulatedCode {
  readonly workflow: Workflow<[Program], unknown>;
  /** Other code under the same name: it asks for nothing of what the journal of a run says that it asked for. */
  readonly strange: Workflow<[Program], unknown>;
  /** The same program in two versions: each matches the journals of runs that began under it. */
  readonly versions: Readonly<Record<Version, Workflow<[Program], unknown>>>;
}

export interface FleetOptions {
  readonly world: World;
  readonly plan: WorkflowPlan;
  readonly storm: Storm;
  readonly server: WithRuns;
  /** Between each process's engine and its connection. */
  readonly engine: (runs: RunBackend) => RunBackend;
  readonly replayCheck: boolean;
  readonly play: () => SimulatedCode;
  /** The version under which a run began. */
  readonly versionOf: (run: string) => Version | undefined;
  readonly note: (line: () => string) => void;
}

export class WorkflowFleet extends HostFleet<WorkflowHost> {
  readonly #options: FleetOptions;
  readonly #owners = new Map<string, WorkflowHost>();
  /** How far the store's clock is ahead of the world's, and when it last jumped. */
  ahead = 0;
  jumpedAt = Number.NEGATIVE_INFINITY;
  /** Called when a process is told to stop, with its grace. */
  onStop: (graceMs: number) => void = () => {};

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

  version(owner: string): Version | undefined {
    return this.#owners.get(owner)?.version;
  }

  /** Whether the code of this worker may diverge on the run. An owner that is no worker is a customer who cancels a run without its code. */
  isStrange(owner: string, run: string): boolean {
    const host = this.#owners.get(owner);
    if (host === undefined) return owner !== "";
    return host.strange || (host.version !== undefined && host.version !== this.#options.versionOf(run));
  }

  jump(ms: number): void {
    this.ahead += ms;
    this.jumpedAt = this.#options.world.now();
  }

  protected override start({ process, died, slot, die }: Born): WorkflowHost {
    const { world, plan, storm, server, engine, replayCheck, play, note } = this.#options;
    const { runs, ...ledger } = withRunFaults(server, { world, process, storm, die });
    const store = createStore({ ...ledger, runs: engine(runs) }, { clock: process.clock, purgeEveryMs: 0 });
    const { worker, concurrency, ...planned } = plan.slots[slot] as WorkflowPlan["slots"][number];
    const strange = planned.strange && !storm.over;
    const version = plan.versions?.[slot];
    if (worker) {
      const random = () => world.random.next();
      const workflow = version ? play().versions[version] : strange ? play().strange : play().workflow;
      void work(store, { workflows: [workflow], leaseMs: plan.leaseMs, concurrency, random, replayCheck });
    }
    const host = { process, store, worker: workerOf(store) as Worker | undefined, strange, version, died, die };
    if (host.worker) this.#owners.set(host.worker.owner, host);
    note(() => `p${process.id} boots in slot ${slot}${version ? `, ${version}` : ""}${worker ? "" : ", without a worker"}`);
    return host;
  }

  protected override isUp(): boolean {
    return true;
  }

  protected override async stop({ worker, store }: WorkflowHost, graceMs: number): Promise<void> {
    this.onStop(graceMs);
    await worker?.stop({ graceMs });
    await store.close();
  }

  /** Nor does anybody run other code. */
  override recover(): void {
    for (const { process, strange } of this.#owners.values()) if (strange) this.end(process, "goes, for its code is replaced");
    super.recover();
  }
}
