import { createStore } from "../../../core/create-store.js";
import type { RunBackend } from "../../../core/run-operation.js";
import type { Store } from "../../../core/store.js";
import type { Worker } from "../../../workflow/worker.js";
import { work, workerOf } from "../../../workflow/workers.js";
import { SimulatedProcess, type World } from "../world.js";
import type { WorkflowPlan } from "./plan.js";
import { type Storm, type WithRuns, withRunFaults } from "./run-faults.js";
import type { Play } from "./script.js";

/** One process: a store of its own on the one database, and perhaps a worker. */
export interface Host {
  readonly process: SimulatedProcess;
  readonly store: Store;
  readonly worker: Worker | undefined;
  /** Its code is another one. */
  readonly strange: boolean;
  /** Resolves when it dies: those who wait for its answer see a broken connection. */
  readonly died: Promise<"died">;
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

/** A fixed number of processes; one that died is replaced after a while. */
export class Fleet {
  readonly #options: FleetOptions;
  readonly #hosts: Host[] = [];
  readonly #owners = new Map<string, Host>();
  readonly #ends = new Map<SimulatedProcess, (why: string) => void>();
  /** How far the store's clock is ahead of the world's, and when it last jumped. */
  ahead = 0;
  jumpedAt = Number.NEGATIVE_INFINITY;
  crashes = 0;
  #booted = 0;

  constructor(options: FleetOptions) {
    this.#options = options;
  }

  host(slot: number): Host {
    const current = this.#hosts[slot];
    return current && !current.process.dead ? current : this.boot(slot);
  }

  /** Whose worker this is. */
  of(owner: string): Host {
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

  /** A new process in this place; an old one that still lives goes on beside it. */
  boot(slot: number): Host {
    const { world, plan, storm, server, engine, play, note } = this.#options;
    this.#booted += 1;
    const process = new SimulatedProcess(world, this.#booted);
    let bury: (died: "died") => void = () => {};
    const died = new Promise<"died">((resolve) => {
      bury = resolve;
    });
    this.#ends.set(process, (why) => {
      if (process.dead) return;
      process.dead = true;
      note(() => `p${process.id} ${why}`);
      bury("died");
    });
    const die = (why: string) => this.#kill(process, slot, why);
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
    this.#hosts[slot] = host;
    note(() => `p${process.id} boots in slot ${slot}${worker ? "" : ", without a worker"}`);
    return host;
  }

  kill(slot: number, why: string): void {
    const host = this.#hosts[slot];
    if (host) this.#kill(host.process, slot, why);
  }

  #kill(process: SimulatedProcess, slot: number, why: string): void {
    const { world, plan } = this.#options;
    if (process.dead) return;
    this.crashes += 1;
    this.#ends.get(process)?.(`dies ${why}`);
    world.after(world.random.between(0, plan.leaseMs * 2), () => void this.host(slot));
  }

  /** Hands its runs back and goes; the next one is up before it has gone. */
  async replace(slot: number, graceMs: number): Promise<void> {
    const old = this.#hosts[slot];
    if (old === undefined || old.process.dead) return;
    this.#options.note(() => `p${old.process.id} is told to stop`);
    this.boot(slot);
    await old.worker?.stop({ graceMs });
    await old.store.close();
    this.#ends.get(old.process)?.("has stopped");
  }

  /** Nobody sleeps on, nobody runs other code, and every place is taken. */
  recover(): void {
    for (const process of this.#ends.keys()) process.pausedUntil = 0;
    for (const { process, strange } of this.#owners.values()) if (strange) this.#ends.get(process)?.("goes, for its code is replaced");
    for (const slot of this.#options.plan.slots.keys()) this.host(slot);
  }
}
