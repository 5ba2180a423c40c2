import type { Store } from "../../core/store/store.js";
import { SimulatedProcess, type World } from "./world.js";

/** One simulated process with its own store handle on the shared database. */
export interface Host {
  readonly process: SimulatedProcess;
  readonly store: Store;
  /** Resolves when the process dies: clients that wait for its reply see a broken connection. */
  readonly died: Promise<"died">;
}

/** A process that has just been created, before its store is open. */
export interface NewProcess extends Pick<Host, "process" | "died"> {
  readonly slot: number;
  readonly die: (why: string) => void;
}

export interface HostFleetOptions {
  readonly world: World;
  readonly plan: { readonly slots: readonly unknown[]; readonly leaseMs: number };
  readonly note: (line: () => string) => void;
}

/** A fixed number of slots, each with one process. A process that died is replaced after up to two leases. */
export abstract class HostFleet<H extends Host> {
  readonly #options: HostFleetOptions;
  readonly #hosts: H[] = [];
  readonly #living = new Set<H>();
  readonly #ends = new Map<SimulatedProcess, (why: string) => void>();
  #booted = 0;
  crashes = 0;

  constructor(options: HostFleetOptions) {
    this.#options = options;
  }

  /** Opens the store of a new process and starts its worker. */
  protected abstract start(created: NewProcess): H;
  /** Whether the process has started, so that it can be stopped gracefully. */
  protected abstract isUp(host: H): boolean;
  /** Stops gracefully: releases the work in progress and closes the store. */
  protected abstract stop(host: H, graceMs: number): Promise<void>;

  host(slot: number): H {
    const current = this.#hosts[slot];
    return current && !current.process.dead ? current : this.boot(slot);
  }

  get living(): H[] {
    return [...this.#living];
  }

  /** Starts a new process in this slot. An old process that is still alive continues beside it. */
  boot(slot: number): H {
    this.#booted += 1;
    const process = new SimulatedProcess(this.#options.world, this.#booted);
    let resolveDied: (died: "died") => void = () => {};
    const died = new Promise<"died">((resolve) => {
      resolveDied = resolve;
    });
    this.#ends.set(process, (why) => {
      if (process.dead) return;
      process.dead = true;
      this.#living.delete(host);
      this.#options.note(() => `p${process.id} ${why}`);
      resolveDied("died");
    });
    const host = this.start({ process, died, slot, die: (why) => this.#kill(process, slot, why) });
    this.#hosts[slot] = host;
    this.#living.add(host);
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
    this.end(process, `dies ${why}`);
    world.after(world.random.between(0, plan.leaseMs * 2), () => void this.host(slot));
  }

  protected end(process: SimulatedProcess, why: string): void {
    this.#ends.get(process)?.(why);
  }

  /** Graceful restart: the new process starts before the old one has stopped. */
  async replace(slot: number, graceMs: number): Promise<void> {
    const old = this.#hosts[slot];
    if (old === undefined || old.process.dead || !this.isUp(old)) return;
    this.#options.note(() => `p${old.process.id} is asked to stop`);
    this.boot(slot);
    await this.stop(old, graceMs);
    this.end(old.process, "has stopped");
  }

  /** Ends all pauses and starts a process in every empty slot. */
  recover(): void {
    for (const process of this.#ends.keys()) process.pausedUntil = 0;
    for (const slot of this.#options.plan.slots.keys()) this.host(slot);
  }
}
