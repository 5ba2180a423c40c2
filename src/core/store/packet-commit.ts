import { UnreachableError } from "../errors/errors.js";
import type { PacketAnswer, PacketBackend, PacketOperation } from "../packets/operation.js";
import type { Clock } from "../work/clock.js";
import { isConnectionLoss } from "./flush-failure.js";
import type { Backend } from "./store.js";
import { closedError } from "./while-open.js";

interface Member {
  readonly operation: PacketOperation;
  readonly resolve: (answer: PacketAnswer) => void;
  readonly reject: (error: unknown) => void;
  tries: number;
}

/** Lost every race this often: something else than a race is going on. */
const triesMax = 100;
const flushMax = 512;

/**
 * Group commit of packets: everything that waits goes out together, in the order in which it was handed in, one flush at a
 * time. The verbs of a flush are done one after the other, so nothing has to be kept apart, as records have to be.
 */
export class PacketCommit {
  readonly #store: Pick<Backend, "name" | "place">;
  readonly #backend: Pick<PacketBackend, "flush">;
  readonly #clock: Clock;
  #queue: Member[] = [];
  #flushing: Promise<void> | undefined;
  closed = false;
  flushes = 0;

  constructor(store: Pick<Backend, "name" | "place">, backend: Pick<PacketBackend, "flush">, clock: Clock) {
    this.#store = store;
    this.#backend = backend;
    this.#clock = clock;
  }

  submit(operation: PacketOperation): Promise<PacketAnswer> {
    return new Promise((resolve, reject) => {
      if (this.closed) return reject(closedError(this.#store));
      this.#queue.push({ operation, resolve, reject, tries: 0 });
      this.#flushing ??= this.#whileQueued();
    });
  }

  /** Finishes what is under way; what has been handed in is still written. */
  async close(): Promise<void> {
    this.closed = true;
    await this.#flushing;
  }

  async #whileQueued(): Promise<void> {
    while (this.#queue.length > 0) {
      // Once everything that is ready has run: it may have more to hand in.
      await new Promise<void>((go) => this.#clock.soon(go));
      await this.#flush(this.#queue.splice(0, flushMax));
    }
    this.#flushing = undefined;
  }

  /** Returns the error when the connection was lost. */
  async #flush(members: readonly Member[]): Promise<unknown> {
    this.flushes += 1;
    try {
      const answers = await this.#backend.flush(members.map(({ operation }) => operation));
      const again: Member[] = [];
      for (let i = 0; i < members.length; i += 1) {
        const member = members[i] as Member;
        const answer = answers[i] ?? "again";
        if (answer === "again") again.push(member);
        else member.resolve(answer);
      }
      if (again.length > 0) this.#requeue(again);
    } catch (error) {
      await this.#failed(members, error);
      if (isConnectionLoss(error)) return error;
    }
    return undefined;
  }

  #requeue(members: readonly Member[]): void {
    const kept: Member[] = [];
    for (const member of members) {
      member.tries += 1;
      if (member.tries <= triesMax) kept.push(member);
      else member.reject(new UnreachableError("the packet changed under every try"));
    }
    this.#queue = [...kept, ...this.#queue];
  }

  /** A flush of several that the server answers with an error goes again one by one: one member fails alone. */
  async #failed(members: readonly Member[], error: unknown): Promise<void> {
    if (members.length === 1 || isConnectionLoss(error)) {
      for (const { reject } of members) reject(error);
      return;
    }
    for (const [i, member] of members.entries()) {
      const loss = await this.#flush([member]);
      if (loss === undefined) continue;
      // Each of them would wait for a connection by itself.
      for (const { reject } of members.slice(i + 1)) reject(loss);
      return;
    }
  }
}
