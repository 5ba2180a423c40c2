import { createStore } from "../../../core/create-store.js";
import type { PacketBackend } from "../../../core/packet-operation.js";
import type { Store } from "../../../core/store.js";
import { createRuntime, type Runtime } from "../../../graph/runtime/runtime.js";
import type { Storm } from "../workflow/run-faults.js";
import { SimulatedProcess } from "../world.js";
import { type NodeWorld, nodesFor } from "./graph-nodes.js";
import { type WithPackets, withPacketFaults } from "./packet-faults.js";

/** One process: a store of its own on the one database, and a runtime on it. */
export interface GraphHost {
  readonly process: SimulatedProcess;
  readonly store: Store;
  /** Never, if it dies before. */
  readonly runtime: Promise<Runtime>;
  up: Runtime | undefined;
  /** Resolves when it dies: those who wait for its answer see a broken connection. */
  readonly died: Promise<"died">;
}

interface FleetOptions extends NodeWorld {
  readonly storm: Storm;
  readonly server: WithPackets;
  readonly engine: (packets: PacketBackend) => PacketBackend;
}

/** A fixed number of processes; one that died is replaced after a while. */
export class GraphFleet {
  readonly #options: FleetOptions;
  readonly #hosts: GraphHost[] = [];
  readonly #ends = new Map<SimulatedProcess, (why: string) => void>();
  readonly #living = new Set<GraphHost>();
  #booted = 0;
  crashes = 0;

  constructor(options: FleetOptions) {
    this.#options = options;
  }

  host(slot: number): GraphHost {
    const current = this.#hosts[slot];
    return current && !current.process.dead ? current : this.boot(slot);
  }

  /** A new process in this place; an old one that still lives goes on beside it. */
  boot(slot: number): GraphHost {
    const { world, plan, storm, server, engine, observer } = this.#options;
    this.#booted += 1;
    const process = new SimulatedProcess(world, this.#booted);
    let bury: (died: "died") => void = () => {};
    const died = new Promise<"died">((resolve) => {
      bury = resolve;
    });
    this.#ends.set(process, (why) => {
      if (process.dead) return;
      process.dead = true;
      this.#living.delete(host);
      observer.note(() => `p${process.id} ${why}`);
      bury("died");
    });
    const { packets, ...ledger } = withPacketFaults(server, { world, process, storm, die: (why) => this.#kill(process, slot, why) });
    const store = createStore({ ...ledger, packets: engine(packets) }, { clock: process.clock, purgeEveryMs: 0 });
    const { work, concurrency } = plan.slots[slot] as { work: boolean; concurrency: number };
    const { flow, leaseMs, pollMs, timeoutMs, graceMs, crashMax, joinWaitMs, onMismatch } = plan;
    const runtime = createRuntime({
      store,
      documents: [flow],
      nodes: nodesFor(this.#options, process),
      ...{ work, concurrency, leaseMs, pollMs, timeoutMs, graceMs, crashMax, joinWaitMs, onMismatch },
      random: () => world.random.next(),
    });
    const host: GraphHost = { process, store, runtime, up: undefined, died };
    runtime.then(
      (up) => {
        host.up = up;
      },
      // It found no store to join: a supervisor starts it again.
      () => this.#kill(process, slot, "at its start"),
    );
    this.#hosts[slot] = host;
    this.#living.add(host);
    observer.note(() => `p${process.id} boots in slot ${slot}${work ? "" : ", without work"}`);
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

  /** Hands its packets back and goes; the next one is up before it has gone. */
  async replace(slot: number, graceMs: number): Promise<void> {
    const old = this.#hosts[slot];
    if (old?.up === undefined || old.process.dead) return;
    this.#options.observer.note(() => `p${old.process.id} is told to stop`);
    this.boot(slot);
    await old.up.stop({ graceMs }).catch(() => {});
    await old.store.close().catch(() => {});
    this.#ends.get(old.process)?.("has stopped");
  }

  /** Nobody sleeps on, and every place is taken. */
  recover(): void {
    for (const process of this.#ends.keys()) process.pausedUntil = 0;
    for (const slot of this.#options.plan.slots.keys()) this.host(slot);
  }

  get living(): GraphHost[] {
    return [...this.#living];
  }
}
