import type { Clock } from "../../core/clock.js";
import { NodeError } from "../node/node-error.js";
import { Attempt } from "./attempt.js";
import { failureOf, judge } from "./failure.js";
import { executionId, packetId } from "./ids.js";
import type { Trace } from "./payload.js";
import type { Route } from "./routes.js";
import { keyOf, type Leaving, problemOf, runStage, type Sent } from "./stage.js";

/** What such a queue holds where its edge does not say. */
const lengthMaxDefault = 10_000;

interface Item extends Sent {
  readonly execution: number | null;
  readonly trace: Trace;
  readonly attempt: number;
  readonly no: number;
}

export interface EphemeralHost {
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly graceMs: number;
  readonly random: () => number;
  next(): number;
  take(route: Route): boolean;
  give(route: Route): void;
  /** Runs it once per key, where its edge has one. */
  onceByKey(route: Route, key: string | undefined, item: Sent, work: () => Promise<void>): Promise<void>;
  /** What it sends on. */
  send(leaving: Leaving, item: { readonly execution: number | null; readonly trace: Trace; readonly route: Route }): Promise<void>;
  /** It failed for good. */
  dead(item: Sent & { readonly execution: number | null; readonly trace: Trace }, error: unknown, attempts: number): Promise<void>;
}

/**
 * Edges of mode `ephemeral`: queues in memory that smooth bursts. What is in them when the process dies is lost, as their
 * mode says.
 */
export class Ephemeral {
  readonly #queues = new Map<Route, Item[]>();
  #host: EphemeralHost | undefined;
  #length = 0;

  attach(host: EphemeralHost): void {
    this.#host = host;
  }

  /** Items that wait, run, or wait to be tried again. */
  get length(): number {
    return this.#length;
  }

  hasRoom(route: Route): boolean {
    return (this.#queues.get(route)?.length ?? 0) < (route.delivery.queue?.lengthMax ?? lengthMaxDefault);
  }

  send(sent: readonly Sent[], execution: number | null, trace: Trace): void {
    for (const each of sent) {
      this.#length += 1;
      this.#put({ ...each, execution, trace, attempt: 1, no: this.#host?.next() ?? 0 });
    }
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

  async #run(host: EphemeralHost, item: Item): Promise<void> {
    const { route, data, attempt: no } = item;
    try {
      await this.#deliver(host, item);
      this.#length -= 1;
    } catch (error) {
      const judged = judge(failureOf(error), route.delivery.retry, no, host.random);
      if (judged.kind === "retry") host.clock.after(judged.delayMs, () => this.#put({ ...item, attempt: no + 1 }));
      else {
        this.#length -= 1;
        await host.dead({ ...item, data }, error, no).catch(() => {});
      }
    } finally {
      host.give(route);
      this.pump();
    }
  }

  async #deliver(host: EphemeralHost, item: Item): Promise<void> {
    const { route, data, execution, trace } = item;
    const key = keyOf(route, data);
    const wrong = item.problem ?? problemOf(route, data) ?? (key.ok ? undefined : key.why);
    if (wrong !== undefined) throw new NodeError("VALIDATION", `edge ${route.queue}: ${wrong}`);
    const name = key.ok ? key.value : undefined;
    const attempt = new Attempt();
    const stage = {
      flowId: route.flow.id,
      executionId: execution === null ? "" : executionId(execution),
      packetId: packetId(item.no),
      attempt: item.attempt,
      traceHeaders: trace,
      signal: attempt.signal,
    };
    const { timeoutMs = host.timeoutMs } = route.delivery;
    await host.onceByKey(route, name, item, async () => {
      const running = runStage(route.node, { [route.port]: data }, name, stage);
      await host.send(await attempt.within(host.clock, timeoutMs, host.graceMs, running), { execution, trace, route });
    });
  }
}
