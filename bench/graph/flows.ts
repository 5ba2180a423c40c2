import type { Store } from "onceflow";
import { createRuntime, NodeOutput, type Runtime } from "onceflow/graph";
import type { Contender } from "../measure.js";

/** Edges that a packet passes: enough that the trigger and the end do not count. */
export const hops = 10;

export type Mode = "direct" | "ephemeral" | "checkpoint" | "durable" | "keyed";

/** A payload of the size of a typical order. */
function payloadOf(id: string) {
  return { id, amount: 4200, currency: "EUR", customer: "customer-0815", lines: [{ article: "a-1", count: 2 }] };
}

/** A chain of nodes that forward their input. The entry leads to the first node and counts as one of the hops. */
function documentOf(mode: Mode, edges: number): string {
  const nodes = Array.from({ length: edges + 1 }, (_, i) => {
    const ports = `inputs: { in: { packet: Order } }${i === edges ? "" : ", outputs: { out: { packet: Order } }"}`;
    return `  N${i}: { operationId: ${i === edges ? "last" : `pass_${i}`}, kind: ${i === edges ? "action" : "transform"}, ${ports} }`;
  });
  const delivery = `mode: ${mode === "keyed" ? "durable" : mode}, packet: Order`;
  const lines = Array.from({ length: edges }, (_, i) => {
    const key = mode === "keyed" ? `, idempotencyKey: "{{payload.id}}-${i}"` : "";
    return `  - { from: N${i}, to: N${i + 1}, delivery: { ${delivery}${key} } }`;
  });
  const order = "{ type: object, required: [id], properties: { id: { type: string }, amount: { type: number } } }";
  return [
    'flowdsl: "1.0"',
    `info: { title: Bench ${mode}, version: "1.0.0" }`,
    "nodes:",
    ...nodes,
    "edges:",
    ...lines,
    `components: { packets: { Order: ${order} } }`,
  ].join("\n");
}

export interface Chain {
  readonly runtime: Runtime;
  /** Resolves when the packet has reached the last node, and this is as durable as its edge makes it. */
  readonly send: (id: string) => Promise<void>;
  /** Triggers without waiting for the end. */
  readonly put: (id: string) => Promise<unknown>;
}

export async function chainOf(store: Store, mode: Mode, { edges = hops - 1, work = true, concurrency = 200 } = {}): Promise<Chain> {
  const waiting = new Map<string, () => void>();
  const nodes = Object.fromEntries(
    Array.from({ length: edges }, (_, i) => [
      `pass_${i}`,
      (input: { packet(port: string): { data: Readonly<Record<string, unknown>> } }) =>
        new NodeOutput().send("out", input.packet("in").data),
    ]),
  );
  const runtime = await createRuntime({
    store,
    documents: [{ text: documentOf(mode, edges) }],
    nodes: {
      ...nodes,
      last: (input) => {
        const id = input.packet("in").getString("id");
        waiting.get(id)?.();
        waiting.delete(id);
      },
    },
    work,
    concurrency,
  });
  const flow = `bench_${mode}`;
  const put = (id: string) => runtime.trigger(flow, undefined, payloadOf(id));
  const send = (id: string) =>
    new Promise<void>((resolve, reject) => {
      waiting.set(id, resolve);
      put(id).catch(reject);
    });
  return { runtime, put, send };
}

export async function contender(name: string, store: Store, mode: Mode): Promise<Contender> {
  const { send } = await chainOf(store, mode);
  let sent = 0;
  const count = () => store.metrics.flushes;
  if (mode !== "direct") return { name, count, work: () => send(`${mode}-${sent++}`) };
  // A single run would end before the clock advances.
  return {
    name,
    work: async () => {
      for (let i = 0; i < directRuns; i++) await send(`${mode}-${sent++}`);
    },
  };
}

export const directRuns = 100;
