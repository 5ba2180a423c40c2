import type { RunBackend } from "../../../core/runs/operation.js";
import { createStore } from "../../../core/store/create-store.js";
import type { Workflow } from "../../../workflow/define/definition.js";
import { workerOf } from "../../../workflow/process/local-worker.js";
import type { Worker } from "../../../workflow/worker/worker.js";
import { work } from "../../../workflow/worker/workers.js";
import { type Host, HostFleet, type NewProcess } from "../host-fleet.js";
import type { World } from "../world.js";
import type { Version, WorkflowPlan } from "./plan.js";
import type { Program } from "./program.js";
import { type Storm, type WithRuns, withRunFaults } from "./run-faults.js";

/** A process, with or without a worker. */
export interface WorkflowHost extends Host {
  readonly worker: Worker | undefined;
  /** Its workflow code does not match the journals of started runs. */
  readonly incompatible: boolean;
  /** Undefined if all processes have the same version. */
  readonly version: Version | undefined;
  readonly die: (why: string) => void;
}

/** The workflow of the world, in the variants that processes deploy. */
export interface SimulatedCode {
  readonly workflow: Workflow<[Program], unknown>;
  /** Different code under the same name: it makes none of the requests in the journal of a started run, and so it diverges. */
  readonly incompatible: Workflow<[Program], unknown>;
  /** Two versions of the code: each one matches the journals of the runs that started under it. */
  readonly versions: Readonly<Record<Version, Workflow<[Program], unknown>>>;
}

export interface FleetOptions {
  readonly world: World;
  readonly plan: WorkflowPlan;
  readonly storm: Storm;
  readonly server: WithRuns;
  /** Wraps the run store of each process, between its engine and the simulated network. */
  readonly engine: (runs: RunBackend) => RunBackend;
  readonly replayCheck: boolean;
  readonly play: () => SimulatedCode;
  /** The version under which a run started. */
  readonly versionOf: (run: string) => Version | undefined;
  readonly note: (line: () => string) => void;
}

export class WorkflowFleet extends HostFleet<WorkflowHost> {
  readonly #options: FleetOptions;
  readonly #owners = new Map<string, WorkflowHost>();
  /** How far the store's clock is ahead of the virtual clock, and when it last jumped. */
  ahead = 0;
  jumpedAt = Number.NEGATIVE_INFINITY;
  /** Called with the grace period when a process is asked to stop. */
  onStop: (graceMs: number) => void = () => {};

  constructor(options: FleetOptions) {
    super(options);
    this.#options = options;
  }

  /** The process of a worker. */
  of(owner: string): WorkflowHost {
    const host = this.#owners.get(owner);
    if (host === undefined) throw new Error(`no process has the worker ${owner}`);
    return host;
  }

  nameOf(owner: string | null): string {
    const host = owner === null ? undefined : this.#owners.get(owner);
    return host ? `p${host.process.id}` : "no process";
  }

  version(owner: string): Version | undefined {
    return this.#owners.get(owner)?.version;
  }

  /** Whether the code of this owner may diverge on the run. An owner that is not a worker is a client that cancels the run without its code. */
  mayDiverge(owner: string, run: string): boolean {
    const host = this.#owners.get(owner);
    if (host === undefined) return owner !== "";
    return host.incompatible || (host.version !== undefined && host.version !== this.#options.versionOf(run));
  }

  jump(ms: number): void {
    this.ahead += ms;
    this.jumpedAt = this.#options.world.now();
  }

  protected override start({ process, died, slot, die }: NewProcess): WorkflowHost {
    const { world, plan, storm, server, engine, replayCheck, play, note } = this.#options;
    const { runs, ...ledger } = withRunFaults(server, { world, process, storm, die });
    const store = createStore({ ...ledger, runs: engine(runs) }, { clock: process.clock, purgeEveryMs: 0 });
    const { worker, concurrency, ...planned } = plan.slots[slot] as WorkflowPlan["slots"][number];
    const incompatible = planned.incompatible && !storm.over;
    const version = plan.versions?.[slot];
    if (worker) {
      const random = () => world.random.next();
      const workflow = version ? play().versions[version] : incompatible ? play().incompatible : play().workflow;
      void work(store, { workflows: [workflow], leaseMs: plan.leaseMs, concurrency, random, replayCheck });
    }
    const host = { process, store, worker: workerOf(store) as Worker | undefined, incompatible, version, died, die };
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

  /** Also ends the processes with incompatible code. */
  override recover(): void {
    for (const { process, incompatible } of this.#owners.values())
      if (incompatible) this.end(process, "ends, because its code is replaced");
    super.recover();
  }
}
