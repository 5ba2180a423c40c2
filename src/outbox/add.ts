import { ConfigurationError } from "../core/errors/errors.js";
import type { NewPacket, SendPackets } from "../core/packets/operation.js";
import { WorkerRegistration } from "../core/packets/worker/registration.js";
import { requireTransactions, type Store, type Tx } from "../core/store/store.js";
import { beforeEffect } from "../core/work/until-answered.js";
import { type Checked, checkMessage, type NewMessage } from "./message.js";
import type { Policy } from "./options.js";

/** The registration only reserves packet numbers and claims no packets, so its lease may expire. */
const joinLeaseMs = 1000;

/** Adds messages to the store, in the caller's transaction or in a commit by itself. */
export class Adder {
  readonly #policy: Policy;
  readonly #registration: WorkerRegistration;
  #joined: Promise<void>;

  constructor(policy: Policy) {
    this.#policy = policy;
    this.#registration = new WorkerRegistration(policy.store, joinLeaseMs);
    // Registers now, not at the first add: that may run inside a transaction that locks out all other writers (SQLite).
    this.#joined = this.#join();
  }

  async add(tx: Tx | undefined, message: NewMessage): Promise<string> {
    const { store } = this.#policy;
    const checked = checkMessage(message, store.valueBytesMax);
    if (tx !== undefined && tx !== store) requireTransactions(store);
    await this.#ready();
    const send: SendPackets = {
      verb: "sendPackets",
      worker: this.#registration.worker,
      execution: null,
      packets: [packetOf(this.#policy, checked, this.#registration.next())],
    };
    if (tx === undefined || tx === store) {
      await beforeEffect(store, () => store.commit({ packet: send }));
    } else await sendWithin(store, tx, send);
    return checked.id;
  }

  async #ready(): Promise<void> {
    if (this.#registration.isNearlyUsedUp) this.#joined = this.#join();
    await this.#joined.catch(() => {});
    if (this.#registration.worker > 0) return;
    // The store was unreachable when the outbox was created.
    this.#joined = this.#join();
    await this.#joined;
  }

  #join(): Promise<void> {
    const joining = beforeEffect(this.#policy.store, () => this.#registration.join());
    // `add` awaits the same promise and reports the error.
    joining.catch(() => {});
    return joining;
  }
}

function packetOf({ flow, queue, deadBlocks, retentionMs }: Policy, { id, key, text }: Checked, no: number): NewPacket {
  return {
    no,
    flow,
    queue,
    execution: null,
    payload: text,
    key: retentionMs === 0 ? null : { scope: flow, key: id, fingerprint: null, retentionMs, onMismatch: "acknowledge" },
    lane: key === undefined ? null : { name: key, deadBlocks },
    join: null,
    // Dead letters of an outbox do not expire. The letter's name is the message id, by which it is found.
    letter: { name: id, retentionMs: null },
    delayMs: 0,
    claim: false,
  };
}

async function sendWithin(store: Store, tx: Tx, send: SendPackets): Promise<void> {
  const { packets } = store;
  if (packets.sendWithin === undefined)
    throw new ConfigurationError(`[onceflow] [${store.name}] this store cannot add messages in a transaction; call add without one`, {
      code: "MISSING_CAPABILITY",
    });
  await packets.sendWithin(tx, send);
}
