import type { HeldLease, HeldRuns, HeldWorker } from "../../core/store/store.js";

/** Room for the longest scope and key, fully escaped, and an owner. */
const slotBytes = 2560;
const header = 2;

export type Held = HeldLease | HeldRuns | HeldWorker;

/**
 * The leases of this process, in memory that the event loop and the heartbeat thread share. Writing a lease takes a few hundred
 * nanoseconds and does not wake the thread; sending a message to the thread at every begin was measurably slower.
 *
 * A slot is in use while its generation is odd. The text is written before the generation becomes odd. A reader that finds a
 * different generation after reading than before has read a mixture of two texts, and ignores it.
 */
export class LeaseBoard {
  readonly memory: SharedArrayBuffer;
  readonly #slots: number;
  readonly #control: BigInt64Array;
  readonly #state: Int32Array;
  readonly #text: Buffer;

  constructor(memory?: SharedArrayBuffer, slots = 1024) {
    this.memory = memory ?? new SharedArrayBuffer(header * 8 + slots * 8 + slots * slotBytes);
    this.#slots = (this.memory.byteLength - header * 8) / (slotBytes + 8);
    this.#control = new BigInt64Array(this.memory, 0, header);
    this.#state = new Int32Array(this.memory, header * 8, this.#slots * 2);
    this.#text = Buffer.from(this.memory, header * 8 + this.#slots * 8);
  }

  get slots(): number {
    return this.#slots;
  }

  /** Called by the event loop to show that it runs. */
  beat(): void {
    Atomics.store(this.#control, 0, monotonicMs());
  }

  silentMs(): number {
    return Number(monotonicMs() - Atomics.load(this.#control, 0));
  }

  /** The shortest lease that was ever held: it determines how often the thread checks. */
  get leaseMsMin(): number {
    return Number(Atomics.load(this.#control, 1));
  }

  set leaseMsMin(ms: number) {
    Atomics.store(this.#control, 1, BigInt(Math.floor(ms)));
    Atomics.notify(this.#control, 1);
  }

  /** Blocks the thread for `ms`, or until a shorter lease needs more frequent checks. */
  sleep(ms: number): void {
    Atomics.wait(this.#control, 1, BigInt(this.leaseMsMin), ms);
  }

  write(slot: number, lease: Held): void {
    const length = this.#text.write(textOf(lease), slot * slotBytes, slotBytes);
    Atomics.store(this.#state, slot * 2 + 1, length);
    Atomics.add(this.#state, slot * 2, 1);
  }

  clear(slot: number): void {
    Atomics.add(this.#state, slot * 2, 1);
  }

  read(): Held[] {
    const leases: Held[] = [];
    for (let slot = 0; slot < this.#slots; slot++) {
      const generation = Atomics.load(this.#state, slot * 2);
      if (generation % 2 === 0) continue;
      const length = Atomics.load(this.#state, slot * 2 + 1);
      const text = this.#text.toString("utf8", slot * slotBytes, slot * slotBytes + length);
      if (Atomics.load(this.#state, slot * 2) !== generation) continue;
      leases.push(toHeld(JSON.parse(text) as Fields));
    }
    return leases;
  }
}

type Fields =
  | readonly [owner: string, leaseMs: number]
  | readonly [owner: string, leaseMs: number, workflows: readonly string[], version: string | null]
  | readonly [owner: string, leaseMs: number, worker: number]
  | readonly [owner: string, leaseMs: number, scope: string, key: string, attempt: number];

/** If the workflow names of a worker do not fit into a slot, they are left out: the thread then renews its runs, but not its worker row. */
function textOf(lease: Held): string {
  const text = JSON.stringify(fieldsOf(lease));
  if (!("runs" in lease) || Buffer.byteLength(text) <= slotBytes) return text;
  return JSON.stringify([lease.owner, lease.leaseMs]);
}

/** The forms differ in their length. */
function fieldsOf(lease: Held): Fields {
  const { owner, leaseMs } = lease;
  if ("runs" in lease) {
    const { signOfLife } = lease;
    return signOfLife ? [owner, leaseMs, signOfLife.workflows, signOfLife.version] : [owner, leaseMs];
  }
  return "worker" in lease ? [owner, leaseMs, lease.worker] : [owner, leaseMs, lease.scope, lease.key, lease.attempt];
}

function toHeld(fields: Fields): Held {
  const [owner, leaseMs] = fields;
  if (fields.length === 2) return { owner, leaseMs, runs: true };
  if (fields.length === 4) return { owner, leaseMs, runs: true, signOfLife: { workflows: fields[2], version: fields[3] } };
  return fields.length === 3
    ? { owner, leaseMs, worker: fields[2] }
    : { scope: fields[2], key: fields[3], owner, attempt: fields[4], leaseMs };
}

function monotonicMs(): bigint {
  return process.hrtime.bigint() / 1_000_000n;
}
