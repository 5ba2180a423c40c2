import { open, type Store } from "onceflow";
import { createInbox, type InboxOptions } from "onceflow/inbox";
import { EffectLedger } from "onceflow/testing";
import type { TestContext } from "vitest";
import { poll } from "../../kit/poll.js";
import { Program } from "../../kit/program.js";
import type { Lane, LaneOptions, Sent } from "./lane.js";

export const boundMs = 50_000;

export async function shop({ onTestFinished }: TestContext) {
  const store = await open("memory:");
  onTestFinished(() => store.close());
  const effects = new EffectLedger({ honoursKeys: false });
  const inboxOn = (on: Store, options: Partial<InboxOptions> = {}) =>
    createInbox(on, { consumer: "shop", backoffMs: 50, waitMs: 5000, ...options });
  const handle: LaneOptions["handle"] = async (_message, { effectKey, attempt }) => effects.call(effectKey, { attempt, result: "shipped" });
  return { store, effects, inboxOn, handle };
}

/** Until the test is over. */
export async function consuming(
  { onTestFinished }: TestContext,
  lane: Lane,
  options: LaneOptions,
  how?: { readonly silent?: boolean },
): Promise<void> {
  const { stop } = await lane.consume(options, how);
  onTestFinished(stop);
}

export async function nothingLeft(lane: Lane): Promise<void> {
  let left: unknown;
  const none = async () => {
    left = await lane.left().catch((error: unknown) => error);
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

/** Keeps those who come to it waiting, until it is opened. */
export class Gate {
  #waiting: (() => void)[] = [];
  #isOpen = false;
  came = 0;

  async pass(): Promise<void> {
    this.came += 1;
    if (!this.#isOpen) await new Promise<void>((go) => void this.#waiting.push(go));
  }

  async reached(): Promise<void> {
    await poll(
      boundMs,
      () => this.came > 0 || undefined,
      () => "nobody came",
    );
  }

  open(): void {
    this.#isOpen = true;
    for (const go of this.#waiting.splice(0)) go();
  }
}
