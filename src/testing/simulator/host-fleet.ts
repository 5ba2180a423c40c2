import type { Store } from "../../core/store/store.js";
import { SimulatedProcess, type World } from "./world.js";

/** One process: a store of its own on the one database, and whatever works on it. */
export interface Host {
  readonly process: SimulatedProcess;
  readonly store: Store;
  /** Resolves when it dies: those who wait for its answer see a broken connection. */
  readonly died: Promise<"died">;
}

/** What a process is born with. */
export interface Born extends Pick<Host, "process" | "died"> {
  readonly slot: number;
  readonly die: (why: string) => void;
}

export interface HostFleetOptions {
  readonly world: World;
  readonly plan: { readonly slots: readonly unknown[]; readonly leaseMs: number };
  readonly note: (line: () => string) => void;
}

/** A fixed number of processes; one that died is replaced after a while. */
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

  /** Opens its store, and begins to work. */
  protected abstract start(born: Born): H;
  /** Whether it is up, and so can be told to stop. */
  protected abstract isUp(host: H): boolean;
  /** Hands back what it works on, and closes its store. */
  protected abstract stop(host: H, graceMs: number): Promise<void>;

  host(slot: number): H {
    const current = this.#hosts[slot];
    return current && !current.process.dead ? current : this.boot(slot);
  }

  get living(): H[] {
    return [...this.#living];
  }

  /** A new process in this place; an old one that still lives goes on beside it. */
  boot(slot: number): H {
    this.#booted += 1;
    const process = new SimulatedProcess(this.#options.world, this.#booted);
    let bury: (died: "died") => void = () => {};
    const died = new Promise<"died">((resolve) => {
      bury = resolve;
    });
    this.#ends.set(process, (why) => {
      if (process.dead) return;
      process.dead = true;
      this.#living.delete(host);
      this.#options.note(() => `p${process.id} ${why}`);
      bury("died");
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

  /** Hands its work back and goes; the next one is up before it has gone. */
  async replace(slot: number, graceMs: number): Promise<void> {
    const old = this.#hosts[slot];
    if (old === undefined || old.process.dead || !this.isUp(old)) return;
    this.#options.note(() => `p${old.process.id} is told to stop`);
    this.boot(slot);
    await this.stop(old, graceMs);
    this.end(old.process, "has stopped");
  }

  /** Nobody sleeps on, and every place is taken. */
  recover(): void {
    for (const process of this.#ends.keys()) process.pausedUntil = 0;
    for (const slot of this.#options.plan.slots.keys()) this.host(slot);
  }
}
