import type { Clock } from "../../../core/work/clock.js";
import { NodeError } from "../../node/node-error.js";
import { storeMade } from "../alerts/store-made.js";
import { Attempt } from "../delivery/attempt.js";
import { type Failure, failureOf, judge } from "../delivery/failure.js";
import type { Origin } from "../delivery/outgoing.js";
import type { Trace } from "../delivery/payload.js";
import { keyOf, type Leaving, noLeaving, problemOf, runStage, type Sent } from "../delivery/stage.js";
import type { Route } from "../flows/routes.js";
import type { Teller } from "../views/event-reporter.js";
import { withFailure } from "../views/history.js";
import type { Mark } from "./memory-mark.js";

/** What such a queue holds where its edge does not say. */
const lengthMaxDefault = 10_000;

export interface Item extends Sent {
  readonly execution: number | null;
  readonly trace: Trace;
  readonly attempt: number;
  readonly no: number;
  /** Of the attempts that have failed. */
  readonly history: string | null;
  /** Undefined: its flow keeps nothing, and no execution waits for it. */
  readonly mark: Mark | undefined;
}

/** How a packet with a key ended: its node ran, or the key was completed before. */
export type ByKey = "executed" | "duplicate" | "mismatch";

export interface EphemeralHost {
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly graceMs: number;
  readonly random: () => number;
  readonly onMismatch: "acknowledge" | "deadLetter";
  readonly teller: Teller;
  next(): number;
  take(route: Route): boolean;
  give(route: Route): void;
  /** Whether this process still has the packet: its lease was not lost since the packet was sent. */
  isOurs(item: Item): boolean;
  /** Runs it once per key, where its edge has one. */
  onceByKey(route: Route, key: string | undefined, item: Sent, work: () => Promise<void>): Promise<ByKey>;
  /** One commit: it is over, and what it sends on is sent. */
  send(leaving: Leaving, item: Item): Promise<void>;
  /** It failed for good; the last time is in its history. */
  dead(item: Item, failure: Failure): Promise<void>;
}

/**
 * Edges of mode `ephemeral`: queues in memory that smooth bursts. What is in them when the process dies is lost, as their
 * mode says; its mark in the store shows the loss.
 */
export class Ephemeral {
  readonly #queues = new Map<Route, Item[]>();
  /** All of an edge: those that wait, run, or wait to be tried again. */
  readonly #lengths = new Map<Route, number>();
  #host: EphemeralHost | undefined;
  #length = 0;

  attach(host: EphemeralHost): void {
    this.#host = host;
  }

  /** Items that wait, run, or wait to be tried again. */
  get length(): number {
    return this.#length;
  }

  /** The first edge that cannot take its share of these. */
  firstFull(sent: readonly Sent[]): Route | undefined {
    const lengths = new Map<Route, number>();
    for (const { route } of sent) {
      const length = (lengths.get(route) ?? this.#lengths.get(route) ?? 0) + 1;
      if (length > (route.delivery.queue?.lengthMax ?? lengthMaxDefault)) return route;
      lengths.set(route, length);
    }
    return undefined;
  }

  send(sent: readonly Sent[], { execution, trace }: Origin, marks: readonly Mark[]): void {
    sent.forEach(({ route, data, problem }, i) => {
      const mark = marks[i];
      const no = mark?.no ?? this.#host?.next() ?? 0;
      this.#count(route, 1);
      this.#put({ route, data, problem, execution, trace, attempt: 1, no, history: null, mark });
    });
  }

  /** There is room again. */
  pump(): void {
    for (const [route, queue] of this.#queues) {
      while (queue.length > 0 && this.#host?.take(route)) void this.#run(this.#host, queue.shift() as Item);
      if (queue.length === 0) this.#queues.delete(route);
    }
  }

  #put(item: Item): void {
    const queue = this.#queues.get(item.route) ?? [];
    this.#queues.set(item.route, queue);
    queue.push(item);
    this.pump();
  }

  #count(route: Route, by: 1 | -1): void {
    this.#length += by;
    const length = (this.#lengths.get(route) ?? 0) + by;
    if (length > 0) this.#lengths.set(route, length);
    else this.#lengths.delete(route);
  }

  async #run(host: EphemeralHost, item: Item): Promise<void> {
    const { route } = item;
    const began = host.clock.now();
    try {
      // Its mark is another process's, which reports it as lost.
      if (!host.isOurs(item)) return this.#count(route, -1);
      host.teller.delivering(route, item);
      const ended = await this.#deliver(host, item);
      if (ended === "mismatch" && host.onMismatch === "deadLetter") {
        await this.#failed(host, item, { ...storeMade("mismatch"), final: true }, host.clock.now() - began);
        return;
      }
      if (ended !== "executed") await host.send(noLeaving(), item);
      this.#count(route, -1);
      if (ended !== "executed") host.teller.acknowledged(route, item, ended === "mismatch");
      else
        host.teller.settled(route, item, {
          to: { kind: "done", keep: false, note: null },
          failure: undefined,
          ms: host.clock.now() - began,
        });
    } catch (error) {
      await this.#failed(host, item, failureOf(error), host.clock.now() - began);
    } finally {
      host.give(route);
      this.pump();
    }
  }

  async #failed(host: EphemeralHost, tried: Item, failure: Failure, took: number): Promise<void> {
    const { route, attempt } = tried;
    const ms = Math.round(took);
    const item = { ...tried, history: withFailure(tried.history, failure, { attempt, at: Date.now() - ms, ms }) };
    const judged = judge(failure, route.delivery.retry, attempt, host.random);
    if (judged.kind === "retry") {
      host.teller.settled(route, item, { to: { ...judged, history: null }, failure, ms: 0 });
      host.clock.after(judged.delayMs, () => this.#put({ ...item, attempt: attempt + 1 }));
      return;
    }
    // What cannot be kept as a dead letter, either, is lost: its mode allows that, and it is told.
    await host.dead(item, failure).catch((trouble: unknown) => host.teller.trouble(trouble));
    this.#count(route, -1);
    host.teller.settled(route, item, { to: { kind: "dead", history: null }, failure, ms: 0 });
  }

  async #deliver(host: EphemeralHost, item: Item): Promise<ByKey> {
    const { route, data, trace } = item;
    const key = keyOf(route, data);
    const wrong = item.problem ?? problemOf(route, data) ?? (key.ok ? undefined : key.why);
    if (wrong !== undefined) throw new NodeError("VALIDATION", `edge ${route.queue}: ${wrong}`);
    const name = key.ok ? key.value : undefined;
    const attempt = new Attempt(route, item, trace);
    return await host.onceByKey(route, name, item, async () => {
      const running = runStage(attempt, { [route.port]: data }, name);
      const leaving = running instanceof Promise ? await attempt.within(host.clock, host.graceMs, host.timeoutMs, running) : running;
      await host.send(leaving, item);
    });
  }
}
