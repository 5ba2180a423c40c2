import { ConfigurationError } from "../core/errors/errors.js";
import type { NewPacket, SendPackets } from "../core/packets/operation.js";
import { WorkerRegistration } from "../core/packets/worker/registration.js";
import { requireTransactions, type Store, type Tx } from "../core/store/store.js";
import { beforeEffect } from "../core/work/until-answered.js";
import { type Checked, checkMessage, type NewMessage } from "./message.js";
import type { Policy } from "./options.js";

/** Nothing is claimed under these numbers: their lease may end, they stay ours. */
const joinLeaseMs = 1000;

/** Puts messages into the store: with the caller's transaction, or by themselves. */
export class Adder {
  readonly #policy: Policy;
  readonly #registration: WorkerRegistration;
  #joined: Promise<void>;

  constructor(policy: Policy) {
    this.#policy = policy;
    this.#registration = new WorkerRegistration(policy.store, joinLeaseMs);
    // Now, and not by the first add: that one may be inside a transaction that keeps all others from writing.
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
    // The store could not be reached when the outbox was made.
    this.#joined = this.#join();
    await this.#joined;
  }

  #join(): Promise<void> {
    const joining = beforeEffect(this.#policy.store, () => this.#registration.join());
    // Whoever adds is told.
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
    // Never dropped, never over. Its id is the name, so that it is found by it.
    letter: { name: id, retentionMs: null },
    delayMs: 0,
    claim: false,
  };
}

async function sendWithin(store: Store, tx: Tx, send: SendPackets): Promise<void> {
  const { packets } = store;
  if (packets.sendWithin === undefined)
    throw new ConfigurationError(`[onceflow] [${store.name}] this store can't send within a transaction; add the message without one`, {
      code: "MISSING_CAPABILITY",
    });
  await packets.sendWithin(tx, send);
}
