import type { Store } from "onceflow";
import { createRuntime, type FlowNode, NodeOutput, type Runtime, type RuntimeEvent, type RuntimeOptions } from "onceflow/graph";
import { memoryTarget } from "onceflow/testing";
import { test as base, expect } from "vitest";
import { type Mortal, mortal } from "../../src/testing/mortal-store.js";
import { everyStore, type Scene, type StoreName, shortMs } from "../kit/scene.js";

/** Stores that keep packets. */
export const packetStores: readonly StoreName[] = everyStore;

export type Nodes = Readonly<Record<string, FlowNode>>;
type Given = Partial<Omit<RuntimeOptions, "store" | "documents" | "nodes">>;

/** A runtime, stopped at the end of its case; on a handle of its own, or on one that is given. */
export async function running(
  scene: Scene,
  document: RuntimeOptions["documents"][number],
  nodes: Nodes,
  options: Given & { readonly store?: Store } = {},
): Promise<Runtime> {
  const { store = await scene.open(), ...rest } = options;
  const runtime = await createRuntime({ store, documents: [document], nodes, ...rest });
  scene.onEnd(() => runtime.stop({ graceMs: 0 }));
  return runtime;
}

/** A runtime whose process will die; nobody has to stop it. */
export async function doomed(
  scene: Scene,
  document: RuntimeOptions["documents"][number],
  nodes: Nodes,
  options: Given = {},
): Promise<{ readonly runtime: Runtime; readonly mortal: Mortal }> {
  const dying = mortal(await scene.open());
  const runtime = await createRuntime({ store: dying.store, documents: [document], nodes, leaseMs: shortMs, ...options });
  return { runtime, mortal: dying };
}

/** The memory store on time that stands still until it is moved. */
export interface Still {
  open(): Promise<Store>;
  runtime(document: RuntimeOptions["documents"][number], nodes: Nodes, options?: Given & { readonly store?: Store }): Promise<Runtime>;
  pass(ms: number): Promise<void>;
}

export const still = base.extend<{ time: Still }>({
  // biome-ignore lint/correctness/noEmptyPattern: vitest reads a fixture's needs from its first argument
  time: async ({}, use) => {
    const place = await memoryTarget({ time: "virtual" }).create();
    const ends: (() => Promise<void>)[] = [];
    const open = async () => {
      const store = await place.open({ purgeEveryMs: 0 });
      ends.push(() => store.close());
      return store;
    };
    await use({
      open,
      pass: (ms) => (place.pass as NonNullable<typeof place.pass>)(ms),
      async runtime(document, nodes, { store, ...options } = {}) {
        const runtime = await createRuntime({ store: store ?? (await open()), documents: [document], nodes, ...options });
        ends.push(() => runtime.stop({ graceMs: 0 }));
        return runtime;
      },
    });
    for (const end of ends.reverse()) {
      let ended = false;
      const ending = end().finally(() => {
        ended = true;
      });
      // What it waits for is on this clock, too.
      while (!ended) await place.pass?.(1);
      await ending;
    }
  },
});

/** What a runtime has told, of these types: "processed Work 2". */
export function eventsOf(runtime: Runtime, ...types: readonly RuntimeEvent["type"][]): string[] {
  const events: string[] = [];
  runtime.on((event) => {
    if (types.length > 0 && !types.includes(event.type)) return;
    const { type } = event;
    if ("attempt" in event) events.push(event.attempt === 0 ? `${type} ${event.node}` : `${type} ${event.node} ${event.attempt}`);
    else if (type === "ended") events.push(`${type} ${event.status}`);
    else events.push(type === "triggered" ? `${type} ${event.node}` : type);
  });
  return events;
}

/** A node that passes on what comes in, and remembers it. */
export function recorder(): { readonly seen: Record<string, unknown>[]; readonly node: FlowNode } {
  const seen: Record<string, unknown>[] = [];
  return {
    seen,
    node(input) {
      const output = new NodeOutput();
      for (const port of input.ports) {
        seen.push(input.packet(port).data);
        output.send("out", input.packet(port).data);
      }
      return output;
    },
  };
}

/** Nothing is with this process any more: no room was kept for what does not come. */
export async function expectAtRest(runtime: Runtime): Promise<void> {
  await runtime.idle();
  expect(runtime.metrics.inFlight).toBe(0);
}

/** Triggers it, and waits until its execution has ended. */
export async function triggered(runtime: Runtime, payload: Record<string, unknown>, key?: string) {
  const { executionId = "" } = await runtime.trigger("flow", undefined, payload, key === undefined ? {} : { key });
  return await runtime.wait(executionId, { timeoutMs: 30_000 });
}
