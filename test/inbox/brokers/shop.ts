import { open, type Store } from "onceflow";
import { createInbox, type InboxOptions } from "onceflow/inbox";
import { EffectLedger } from "onceflow/testing";
import type { TestContext } from "vitest";
import { gate } from "../../kit/gate.js";
import { poll } from "../../kit/poll.js";
import { Program } from "../../kit/program.js";
import type { BrokerQueue, ConsumerOptions, Sent } from "./broker-queue.js";

export const boundMs = 50_000;

export async function shop({ onTestFinished }: TestContext) {
  const store = await open("memory:");
  onTestFinished(() => store.close());
  const effects = new EffectLedger({ honoursKeys: false });
  const inboxOn = (on: Store, options: Partial<InboxOptions> = {}) =>
    createInbox(on, { consumer: "shop", backoffMs: 50, waitMs: 5000, ...options });
  const handle: ConsumerOptions["handle"] = async (_message, { effectKey, attempt }) =>
    effects.call(effectKey, { attempt, result: "shipped" });
  return { store, effects, inboxOn, handle };
}

/** Consumes from the queue until the test is over. */
export async function consuming(
  { onTestFinished }: TestContext,
  queue: BrokerQueue,
  options: ConsumerOptions,
  how?: { readonly silent?: boolean },
): Promise<void> {
  const { stop } = await queue.consume(options, how);
  onTestFinished(stop);
}

export async function nothingLeft(queue: BrokerQueue): Promise<void> {
  let left: unknown;
  const none = async () => {
    left = await queue.left().catch((error: unknown) => error);
    return left === 0 || undefined;
  };
  await poll(boundMs, none, () => `left at the broker: ${left}`);
}

export function orders(count: number): Sent[] {
  return Array.from({ length: count }, (_, i) => ({ id: `message-${i}`, body: JSON.stringify({ order: `order-${i}` }) }));
}

export function calls(effects: EffectLedger): number[] {
  return effects.keys().map((key) => effects.rawCalls(key));
}

export function startConsumer({ onTestFinished }: TestContext, args: readonly string[]): Program {
  return new Program("inbox/programs/broker-consumer", args, { onEnd: onTestFinished });
}

/** A gate at which handlers wait, and that counts them. */
export class HandlerGate {
  readonly #gate = gate();
  came = 0;

  async pass(): Promise<void> {
    this.came += 1;
    await this.#gate.opened;
  }

  async reached(): Promise<void> {
    await poll(
      boundMs,
      () => this.came > 0 || undefined,
      () => "no handler came to the gate",
    );
  }

  open(): void {
    this.#gate.open();
  }
}
