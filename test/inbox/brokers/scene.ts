import { type ChildProcess, fork } from "node:child_process";
import { open, type Store } from "onceflow";
import { createInbox, type InboxOptions } from "onceflow/inbox";
import { EffectLedger } from "onceflow/testing";
import { expect, type TestContext } from "vitest";
import { poll } from "../../servers/process/command.js";
import type { Lane, LaneOptions, Sent } from "./lane.js";

const program = new URL("../../../.build/test/inbox/programs/broker-consumer.js", import.meta.url);
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

export function total(effects: EffectLedger): number {
  return calls(effects).reduce((sum, count) => sum + count, 0);
}

export function child({ onTestFinished }: TestContext, args: readonly string[]): ChildProcess {
  const process = fork(program, args, { execArgv: [], stdio: ["ignore", "ignore", "inherit", "ipc"] });
  onTestFinished(() => void process.kill("SIGKILL"));
  return process;
}

export async function ended(process: ChildProcess, signal: NodeJS.Signals | null): Promise<void> {
  const over = () => process.exitCode !== null || process.signalCode !== null || undefined;
  await poll(boundMs, over, () => "a process did not end");
  expect(process.signalCode).toBe(signal);
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
