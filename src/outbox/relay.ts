import { OnceflowError, UnreachableError } from "../core/errors/errors.js";
import { isHeard, publish as publishEvent } from "../core/events/channels.js";
import type { PacketAnswer, PacketClaimQuery, PacketClaims, PacketOutcome } from "../core/packets/operation.js";
import type { PacketRecord } from "../core/packets/packet.js";
import { PacketLease } from "../core/packets/worker/packet-lease.js";
import { WorkerRegistration } from "../core/packets/worker/registration.js";
import { PacketSuspects } from "../core/packets/worker/suspects.js";
import { BoundedCall } from "../core/work/bounded-call.js";
import { InHand } from "../core/work/in-hand.js";
import { PollLoop } from "../core/work/poll-loop.js";
import { afterEffect } from "../core/work/until-answered.js";
import { messageOf } from "./message.js";
import type { Counts } from "./metrics.js";
import { type Publishing, publish, triesOf } from "./publish.js";

/**
 * Claims due messages, publishes them and settles them. Any number of relays, in any number of processes, can share an outbox.
 * The next message of a key becomes due when the one before it is settled.
 *
 * If a relay dies after publishing and before settling, its lease expires, and another relay claims the message and publishes
 * it again, with the same id.
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

  /** Number of messages that this relay is publishing now. */
  get inFlight(): number {
    return this.#calls.size;
  }

  /** Polls now: a message may be due. */
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
    // A suspect is running alone in this process (in this relay, or in another user of the same store).
    if (untilOpen !== undefined) return void untilOpen.then(() => this.wake());
    const limit = relay.concurrency - this.#calls.size - this.#suspects.size;
    // The end of a call polls again. Also polls later, because a suspect may still be counted at that moment.
    if (limit <= 0) return this.#polls.pollWithin(relay.pollMs);
    const { worker } = this.#registration;
    const { claimed, known, nextAt, now } = await this.#ask({ worker, queues: [{ flow, queue, limit }], limit });
    const suspects = claimed.filter((packet) => this.#suspects.has({ packet }));
    for (const packet of claimed) if (!suspects.includes(packet)) void this.#relay(packet, worker, (work) => this.#inHand.beside(work));
    for (const packet of suspects) this.#suspects.add({ packet });
    if (!known) return await this.#lease.rejoin(worker, { lost: true });
    const waitMs = nextAt === null ? relay.pollMs : Math.min(Math.max(nextAt - now, 0), relay.pollMs);
    // Without a free slot, the end of the next call polls.
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
   * After a lost reply to a claim: this worker may own messages that it does not know of, and no other relay would get them while
   * its lease is renewed. When all known messages have ended, releases everything it owns. False: not yet.
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

  /** `turn` runs the work beside other messages, or alone. */
  async #relay(packet: PacketRecord, worker: number, turn: <T>(work: () => Promise<T>) => Promise<T>): Promise<void> {
    const call = new BoundedCall();
    this.#calls.add(call);
    const beganAt = isHeard("message") ? performance.now() : undefined;
    try {
      const [to, answer] = await turn(async () => {
        // While it waited for a suspect, the lease may have been lost or the relay stopped: then the message is released.
        const outcome = !call.isAborted ? await publish(this.#publishing, packet, call) : released;
        return [outcome, await this.#settle(packet, worker, outcome)] as const;
      });
      // Stale: another relay owns the message now and publishes it again.
      if (answer.kind === "packetSettled") this.#counts[countOf[to.kind]] += 1;
      else this.#counts.stale += 1;
      if (beganAt !== undefined) this.#report(packet, answer.kind === "packetSettled" ? to : undefined, performance.now() - beganAt);
    } catch (error) {
      // The store is closed: the message stays claimed until the lease expires.
      this.#trouble(error);
    } finally {
      this.#calls.delete(call);
      if (this.#calls.size === 0) this.#ended();
      this.wake();
    }
  }

  /** `to` undefined: another relay owns the message. */
  #report(packet: PacketRecord, to: PacketOutcome | undefined, ms: number): void {
    if (to?.kind === "release") return;
    const { store, name: outbox } = this.#publishing.policy;
    const outcome = to === undefined ? "stale" : to.kind === "trial" ? "retry" : to.kind;
    publishEvent("message", { type: "published", store: store.name, outbox, id: idOf(packet), outcome, attempt: packet.attempt, ms });
  }

  /** Retries until the outcome is stored or another relay owns the message. `worker` claimed the message, even if this relay has rejoined since. */
  #settle({ no, attempt, key }: PacketRecord, worker: number, to: PacketOutcome): Promise<PacketAnswer> {
    const { store } = this.#publishing.policy;
    const packet = { verb: "settlePacket", no, worker, attempt, to, packets: [], outputs: [] } as const;
    return afterEffect(store, () => store.commit({ packet }), { what: `the outcome of message ${key?.key ?? no}` });
  }

  #lost(): void {
    this.#counts.leasesLost += 1;
    const why = "this process did not renew its lease in time; another relay may own the message";
    for (const call of this.#calls) call.abort(new OnceflowError(why, { code: "LEASE_LOST", retryable: true }));
  }

  #trouble(error: unknown): void {
    try {
      this.#publishing.relay.onTrouble(error);
    } catch {
      // An error of the callback must not stop the relay.
    }
  }

  /** Stops claiming, waits up to `graceMs` for running publishers, and releases the other messages. */
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
    for (const call of this.#calls) call.abort(new OnceflowError("the relay is stopping", { code: "RELAY_STOPPED", retryable: true }));
    // Publishers that still run have begun their attempt: their messages are not released but left to the lease.
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

/** Undefined if this process cannot decrypt the message. */
function idOf(packet: PacketRecord): string | undefined {
  try {
    return packet.key?.key ?? messageOf(packet).id;
  } catch {
    return undefined;
  }
}

const released: PacketOutcome = { kind: "release" };
const countOf = { done: "published", retry: "retried", dead: "dead", release: "retried", trial: "retried" } as const;
