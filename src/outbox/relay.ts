import { OnceflowError, UnreachableError } from "../core/errors/errors.js";
import type { PacketAnswer, PacketClaimQuery, PacketClaims, PacketOutcome } from "../core/packets/operation.js";
import type { PacketRecord } from "../core/packets/packet.js";
import { PacketLease } from "../core/packets/worker/packet-lease.js";
import { WorkerRegistration } from "../core/packets/worker/registration.js";
import { PacketSuspects } from "../core/packets/worker/suspects.js";
import { BoundedCall } from "../core/work/bounded-call.js";
import { InHand } from "../core/work/in-hand.js";
import { PollLoop } from "../core/work/poll-loop.js";
import { afterEffect } from "../core/work/until-answered.js";
import type { Counts } from "./metrics.js";
import { type Publishing, publish, triesOf } from "./publish.js";

/**
 * Carries messages from the store to the broker: claims what is due, publishes it, settles it. Any number of them, in any
 * number of processes, work on one outbox. Of a key the next message is due when the one before it is settled.
 *
 * Dies after publishing, before settling: its lease ends, another relay claims the message and publishes it again, with
 * the same id.
 */
export class Relay {
  readonly #publishing: Publishing;
  readonly #counts: Counts;
  readonly #registration: WorkerRegistration;
  readonly #lease: PacketLease;
  readonly #polls: PollLoop;
  readonly #calls = new Set<BoundedCall>();
  readonly #inHand: InHand;
  readonly #suspects: PacketSuspects<{ readonly packet: PacketRecord }>;
  readonly #stopWatching: () => void;
  #inDoubt = false;
  #stopping: Promise<void> | undefined;
  #ended: () => void = () => {};

  constructor(publishing: Publishing, counts: Counts) {
    const { policy, relay } = publishing;
    const { store } = policy;
    this.#publishing = publishing;
    this.#counts = counts;
    this.#registration = new WorkerRegistration(store, relay.leaseMs);
    const trouble = (error: unknown) => this.#trouble(error);
    this.#lease = new PacketLease(store, this.#registration, {
      leaseMs: relay.leaseMs,
      isIdle: () => this.#calls.size === 0,
      onLost: () => this.#lost(),
      onRejoined: () => this.wake(),
      reportTrouble: trouble,
    });
    this.#inHand = InHand.of(store);
    this.#suspects = new PacketSuspects({
      ...{ store, leaseMs: relay.leaseMs, inHand: this.#inHand, trouble },
      isOver: (packet, died) => triesOf(packet, { died }) > policy.triesMax,
      stopped: () => this.#stopping !== undefined,
      deliver: ({ packet }) => this.#relayAlone(packet),
      left: () => this.wake(),
    });
    this.#polls = new PollLoop(store.clock, { poll: () => this.#claim(), reportFailure: trouble, isClosed: () => store.closed });
    this.#stopWatching = store.packets.watch(() => this.wake());
    this.wake();
  }

  /** Messages that are being published here now. */
  get inFlight(): number {
    return this.#calls.size;
  }

  /** Something may be due. */
  wake(): void {
    this.#polls.pollNow();
  }

  async #claim(): Promise<void> {
    const { policy, relay } = this.#publishing;
    const { flow, queue } = policy;
    if (this.#inDoubt && !(await this.#handBack())) return;
    if (this.#registration.worker === 0) {
      await this.#registration.join();
      this.#lease.start();
    }
    const untilOpen = this.#inHand.untilOpen();
    // A message is published by itself, here or by whoever shares the store.
    if (untilOpen !== undefined) return void untilOpen.then(() => this.wake());
    const limit = relay.concurrency - this.#calls.size - this.#suspects.size;
    // The next one that ends looks; a suspect may still be counted then, so it is looked again later, too.
    if (limit <= 0) return this.#polls.pollWithin(relay.pollMs);
    const { worker } = this.#registration;
    const { claimed, known, nextAt, now } = await this.#ask({ worker, queues: [{ flow, queue, limit }], limit });
    const suspects = claimed.filter((packet) => this.#suspects.has({ packet }));
    for (const packet of claimed) if (!suspects.includes(packet)) void this.#relay(packet, worker, (work) => this.#inHand.beside(work));
    for (const packet of suspects) this.#suspects.add({ packet });
    if (!known) return await this.#lease.rejoin(worker, { lost: true });
    const waitMs = nextAt === null ? relay.pollMs : Math.min(Math.max(nextAt - now, 0), relay.pollMs);
    // Without room the next one that ends looks.
    if (waitMs > 0) this.#polls.pollWithin(waitMs);
    else if (this.#calls.size < relay.concurrency) this.wake();
  }

  async #ask(query: PacketClaimQuery): Promise<PacketClaims> {
    try {
      return await this.#publishing.policy.store.packets.claim(query);
    } catch (error) {
      this.#inDoubt ||= !(error instanceof UnreachableError);
      throw error;
    }
  }

  /**
   * The reply to a claim was lost: there may be messages that are ours, which we don't know of, and which we would keep from
   * all others as long as we live. When those that we know of have ended, all others are handed back. False: not yet.
   */
  async #handBack(): Promise<boolean> {
    if (this.#calls.size > 0 || this.#suspects.size > 0) return false;
    const { worker } = this.#registration;
    await this.#publishing.policy.store.packets.leave(worker);
    await this.#lease.rejoin(worker, { lost: false });
    this.#inDoubt = false;
    return true;
  }

  async #relayAlone(packet: PacketRecord): Promise<void> {
    const worker = packet.owner as number;
    if (this.#stopping === undefined) await this.#relay(packet, worker, (work) => work());
    else await this.#settle(packet, worker, { kind: "release" });
  }

  /** `turn` runs it beside others, or by itself. */
  async #relay(packet: PacketRecord, worker: number, turn: <T>(work: () => Promise<T>) => Promise<T>): Promise<void> {
    const call = new BoundedCall();
    this.#calls.add(call);
    try {
      const [to, answer] = await turn(async () => {
        // It may have waited for a suspect: by now it may be another relay's, or this one stops.
        const outcome = !call.isAborted ? await publish(this.#publishing, packet, call) : released;
        return [outcome, await this.#settle(packet, worker, outcome)] as const;
      });
      // Stale: another relay has the message, and publishes it again.
      if (answer.kind === "packetSettled") this.#counts[countOf[to.kind]] += 1;
      else this.#counts.stale += 1;
    } catch (error) {
      // The store is closed: the message stays ours until our lease is over.
      this.#trouble(error);
    } finally {
      this.#calls.delete(call);
      if (this.#calls.size === 0) this.#ended();
      this.wake();
    }
  }

  /** Tried until it is in the store, or the message is another relay's. `worker` is who claimed it, even if we have joined again. */
  #settle({ no, attempt, key }: PacketRecord, worker: number, to: PacketOutcome): Promise<PacketAnswer> {
    const { store } = this.#publishing.policy;
    const packet = { verb: "settlePacket", no, worker, attempt, to, packets: [], outputs: [] } as const;
    return afterEffect(store, () => store.commit({ packet }), { what: `the end of message ${key?.key ?? no}` });
  }

  #lost(): void {
    this.#counts.leasesLost += 1;
    const why = "this process was silent for longer than its lease; the message is another relay's";
    for (const call of this.#calls) call.abort(new OnceflowError(why, { code: "LEASE_LOST", retryable: true }));
  }

  #trouble(error: unknown): void {
    try {
      this.#publishing.relay.onTrouble(error);
    } catch {
      // Whoever listens does not stop the relay.
    }
  }

  /** Claims nothing more, lets publishers end within `graceMs`, hands the rest back. */
  stop(graceMs: number): Promise<void> {
    this.#stopping ??= this.#stop(graceMs);
    return this.#stopping;
  }

  async #stop(graceMs: number): Promise<void> {
    const { store } = this.#publishing.policy;
    this.#stopWatching();
    await this.#polls.stop();
    await this.#callsEnd(graceMs);
    this.#lease.stop();
    for (const call of this.#calls) call.abort(new OnceflowError("the relay stops", { code: "RELAY_STOPPED", retryable: true }));
    // What still runs has begun: it is left to its lease, and counts as what it is.
    if (this.#calls.size > 0 || this.#registration.worker === 0 || store.closed) return;
    await store.packets.leave(this.#registration.worker).catch((error: unknown) => this.#trouble(error));
  }

  #callsEnd(graceMs: number): Promise<void> {
    if (this.#calls.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel = this.#publishing.policy.store.clock.after(graceMs, resolve);
      this.#ended = () => {
        cancel();
        resolve();
      };
    });
  }
}

const released: PacketOutcome = { kind: "release" };
const countOf = { done: "published", retry: "retried", dead: "dead", release: "retried", trial: "retried" } as const;
