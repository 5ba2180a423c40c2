import type { Store } from "onceflow";
import { createRuntime, type FlowNode, NodeOutput, type Runtime, type RuntimeEvent, type RuntimeOptions } from "onceflow/graph";
import type { NodeType } from "onceflow/nodes";
import { memoryTarget } from "onceflow/testing";
import { test as base, expect } from "vitest";
import { type Mortal, mortal } from "../../src/testing/mortal-store.js";
import { fullStores, type Scene, type StoreName, shortMs } from "../kit/scene.js";

/** Stores that support packets. */
export const packetStores: readonly StoreName[] = fullStores;

export type Nodes = Readonly<Record<string, FlowNode | NodeType>>;
type Given = Partial<Omit<RuntimeOptions, "store" | "documents" | "nodes">>;

/** A runtime that is stopped at the end of its test. Opens a store unless `options` has one. */
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

/** A runtime whose process will die, so it need not be stopped. */
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

/** A test with a memory store and a clock that only the test advances. */
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
      // stop() waits on this clock too.
      while (!ended) await place.pass?.(1);
      await ending;
    }
  },
});

/** The events of these types that a runtime reports, as "processed Work 2". */
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

/** A node that records its input and passes it on. */
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

/** Expects that the process has no deliveries left and no reserved capacity. */
export async function expectAtRest(runtime: Runtime): Promise<void> {
  await runtime.idle();
  expect(runtime.metrics.inFlight).toBe(0);
}

/** Triggers the flow and waits until the execution has ended. */
export async function triggered(runtime: Runtime, payload: Record<string, unknown>, key?: string) {
  const { executionId = "" } = await runtime.trigger("flow", undefined, payload, key === undefined ? {} : { key });
  return await runtime.wait(executionId, { timeoutMs: 30_000 });
}
