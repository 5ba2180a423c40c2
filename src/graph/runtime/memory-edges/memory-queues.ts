import { withFailure } from "../../../core/packets/history.js";
import type { Store } from "../../../core/store/store.js";
import { NodeError } from "../../node/node-error.js";
import { storeMade } from "../alerts/store-made.js";
import { Attempt } from "../delivery/attempt.js";
import { keyOf, problemOf } from "../delivery/check.js";
import { type Failure, failureOf, judge } from "../delivery/failure.js";
import { type Leaving, noLeaving, type Sent } from "../delivery/leaving.js";
import type { Origin } from "../delivery/sender.js";
import { runStage } from "../delivery/stage.js";
import type { Route } from "../flows/route.js";
import type { EventReporter } from "../views/event-reporter.js";
import type { MemoryCommits } from "./memory-commits.js";
import type { Mark } from "./memory-mark.js";
import type { MemoryPacket } from "./memory-packet.js";
import { type ByKey, onceByKey } from "./once-by-key.js";

/** Maximum length of a queue whose edge has no `maxLen`. */
const lengthMaxDefault = 10_000;

/** What edges in memory need from their worker. */
interface MemoryPorts {
  readonly store: Store;
  readonly commits: Pick<MemoryCommits, "sendOn" | "saveDead">;
  readonly reporter: EventReporter;
  readonly options: {
    readonly timeoutMs: number;
    readonly graceMs: number;
    readonly random: () => number;
    readonly onMismatch: "acknowledge" | "deadLetter";
  };
  /** The number of the next packet. */
  next(): number;
  /** False: the worker has no free slot for a packet of this route, or must not begin one now. */
  takeSlot(route: Route): boolean;
  releaseSlot(route: Route): void;
  /** Whether this process still owns the mark: it has not lost its lease since the packet was sent. */
  ownsMark(mark: Mark): boolean;
  /** Polls the store: a dead letter may have put an alert there. */
  poll(): void;
}

/**
 * Edges of mode `ephemeral`: queues in memory that smooth bursts. A packet's path is `send` → `deliverWaiting` (a slot is
 * free) → `#run` (key, stage, one commit) → `#settleFailed` on an error. Packets in memory are lost when the process dies,
 * as their mode says; their marks in the store show the loss.
 */
export class MemoryQueues {
  readonly #ports: MemoryPorts;
  readonly #queues = new Map<Route, MemoryPacket[]>();
  /** All packets of an edge: waiting, running, or waiting for a retry. */
  readonly #lengths = new Map<Route, number>();
  #length = 0;

  constructor(ports: MemoryPorts) {
    this.#ports = ports;
  }

  /** Packets of all edges: waiting, running, or waiting for a retry. */
  get length(): number {
    return this.#length;
  }

  /** Throws if the queue of an edge has no room for its packets. */
  checkRoom(sent: readonly Sent[]): void {
    const lengths = new Map<Route, number>();
    for (const { route } of sent) {
      const length = (lengths.get(route) ?? this.#lengths.get(route) ?? 0) + 1;
      if (length > (route.delivery.queue?.lengthMax ?? lengthMaxDefault))
        throw new NodeError("TEMPORARY", `the queue of edge ${route.queue} is full`);
      lengths.set(route, length);
    }
  }

  /** `marks`: one for each packet, in order; empty if the flow stores nothing. */
  send(sent: readonly Sent[], { execution, trace }: Origin, marks: readonly Mark[]): void {
    sent.forEach(({ route, data, problem }, i) => {
      const mark = marks[i];
      const no = mark?.no ?? this.#ports.next();
      this.#count(route, 1);
      this.#enqueue({ route, data, problem, execution, trace, attempt: 1, no, history: null, mark });
    });
  }

  /** Starts waiting packets, as far as slots are free. */
  deliverWaiting(): void {
    for (const [route, queue] of this.#queues) {
      while (queue.length > 0 && this.#ports.takeSlot(route)) void this.#run(queue.shift() as MemoryPacket);
      if (queue.length === 0) this.#queues.delete(route);
    }
  }

  #enqueue(packet: MemoryPacket): void {
    const queue = this.#queues.get(packet.route) ?? [];
    this.#queues.set(packet.route, queue);
    queue.push(packet);
    this.deliverWaiting();
  }

  #count(route: Route, by: 1 | -1): void {
    this.#length += by;
    const length = (this.#lengths.get(route) ?? 0) + by;
    if (length > 0) this.#lengths.set(route, length);
    else this.#lengths.delete(route);
  }

  async #run(packet: MemoryPacket): Promise<void> {
    const { route, mark } = packet;
    const { store, reporter, options } = this.#ports;
    const startedAt = store.clock.now();
    const ms = () => Math.max(0, Math.round(store.clock.now() - startedAt));
    try {
      // After a lost lease another process reports the mark as lost: a call here would run a packet that was given up.
      if (mark !== undefined && !this.#ports.ownsMark(mark)) return this.#count(route, -1);
      reporter.reportDelivering(route, packet);
      const result = await this.#deliver(packet, ms);
      if (result === "mismatch" && options.onMismatch === "deadLetter") {
        await this.#settleFailed(packet, { ...storeMade("mismatch"), final: true }, ms());
        return;
      }
      if (result !== "executed") await this.#sendOn(noLeaving(), packet, { verdict: "duplicate", ms: ms() });
      this.#count(route, -1);
      if (result === "executed") reporter.reportSettled(route, packet, { to: done, failure: undefined, ms: ms() });
      else reporter.reportAcknowledged(route, packet, result === "mismatch");
    } catch (error) {
      await this.#settleFailed(packet, failureOf(error), ms());
    } finally {
      this.#ports.releaseSlot(route);
      this.deliverWaiting();
    }
  }

  async #deliver(packet: MemoryPacket, ms: () => number): Promise<ByKey> {
    const { store, options } = this.#ports;
    const { route, data, trace } = packet;
    const key = keyOf(route, data);
    const problem = packet.problem ?? problemOf(route, data) ?? (key.ok ? undefined : key.why);
    if (problem !== undefined) throw new NodeError("VALIDATION", `edge ${route.queue}: ${problem}`);
    const name = key.ok ? key.value : undefined;
    const attempt = new Attempt(route, packet, trace);
    return await onceByKey(store, route, name, data, async () => {
      attempt.startLimit(store.clock, store.clock.now(), options.timeoutMs);
      const running = runStage(attempt, { [route.port]: data }, name);
      const leaving = running instanceof Promise ? await attempt.within(store.clock, options.graceMs, options.timeoutMs, running) : running;
      await this.#sendOn(leaving, packet, { verdict: "completed", ms: ms() });
    });
  }

  async #sendOn(leaving: Leaving, packet: MemoryPacket, ended: Parameters<MemoryCommits["sendOn"]>[2]): Promise<void> {
    this.checkRoom(leaving.ephemeral);
    const marks = await this.#ports.commits.sendOn(leaving, packet, ended);
    if (marks !== undefined) this.send(leaving.ephemeral, packet, marks);
  }

  async #settleFailed(failed: MemoryPacket, failure: Failure, tookMs: number): Promise<void> {
    const { commits, reporter, options, store } = this.#ports;
    const { route, attempt } = failed;
    const ms = Math.round(tookMs);
    const packet = { ...failed, history: withFailure(failed.history, failure, { attempt, at: Date.now() - ms, ms }) };
    const judged = judge(failure, route.delivery.retry, attempt, options.random);
    if (judged.kind === "retry") {
      reporter.reportSettled(route, packet, { to: { ...judged, history: null }, failure, ms: 0 });
      store.clock.after(judged.delayMs, () => this.#enqueue({ ...packet, attempt: attempt + 1 }));
      return;
    }
    // A dead letter that cannot be saved is lost, as the mode of its edge allows: the trouble is reported.
    await commits.saveDead(packet, failure, ms).then(
      () => this.#ports.poll(),
      (error: unknown) => reporter.reportTrouble(error),
    );
    this.#count(route, -1);
    reporter.reportSettled(route, packet, { to: { kind: "dead", history: null }, failure, ms: 0 });
  }
}

const done = { kind: "done", keep: false, note: null } as const;
