import { createStore } from "../../core/store/create-store.js";
import type { Backend, Store } from "../../core/store/store.js";
import { type Weather, withFaults } from "./faults.js";
import { SimulatedProcess, type World } from "./world.js";

export interface Host {
  readonly process: SimulatedProcess;
  readonly store: Store;
}

/** A fixed number of processes. A process that died is replaced when it is next requested. */
export class Fleet {
  readonly #world: World;
  readonly #server: Backend;
  readonly #weather: Weather;
  readonly #hosts: Host[] = [];
  /** A clock of a process that never crashes or pauses. */
  readonly calmClock: SimulatedProcess["clock"];
  crashes = 0;

  constructor(world: World, server: Backend, weather: Weather) {
    this.#world = world;
    this.#server = server;
    this.#weather = weather;
    this.calmClock = new SimulatedProcess(world, 0).clock;
  }

  host(slot: number): Host {
    const current = this.#hosts[slot];
    if (current && !current.process.dead) return current;
    if (current) this.crashes += 1;
    const process = new SimulatedProcess(this.#world, slot + 1);
    const backend = withFaults(this.#server, this.#world, process, this.#weather);
    const host = { process, store: createStore(backend, { clock: process.clock, purgeEveryMs: 0 }) };
    this.#hosts[slot] = host;
    return host;
  }
}
