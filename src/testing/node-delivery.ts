import { randomUUID } from "node:crypto";
import { MismatchError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { key } from "../core/ledger/key.js";
import { once } from "../core/ledger/once.js";
import { createStore } from "../core/store/create-store.js";
import type { Store } from "../core/store/store.js";
import { type FlowNode, handle, type NodeContext, NodeInput, NodeOutput } from "../graph/node/node.js";
import { mustBeObject } from "../graph/node/packet.js";
import { createMemoryLedger, memoryBackend } from "../stores/memory/backend.js";

export interface MockInputOptions {
  /** As if the edge had a template that made this of the packet. */
  readonly idempotencyKey?: string;
  readonly context?: Partial<Omit<NodeContext, "idempotencyKey">>;
}

const mockOptions: OptionNames<MockInputOptions> = { idempotencyKey: true, context: true };

type PacketData = Readonly<Record<string, unknown>>;

/**
 * What a node would be given: a packet at one port, or one packet at each of several ports.
 *
 * @example
 * const input = mockNodeInput("in", { messageId: "msg-001" }, { idempotencyKey: "msg-001-sms" });
 * const joined = mockNodeInput({ order: { id: "o-1" }, payment: { id: "p-1" } }, { idempotencyKey: "o-1-ship" });
 */
export function mockNodeInput(port: string, data: PacketData, options?: MockInputOptions): NodeInput;
export function mockNodeInput(packets: Readonly<Record<string, PacketData>>, options?: MockInputOptions): NodeInput;
export function mockNodeInput(
  first: string | Readonly<Record<string, PacketData>>,
  second: PacketData | MockInputOptions = {},
  third: MockInputOptions = {},
): NodeInput {
  const packets = typeof first === "string" ? { [first]: second as PacketData } : first;
  const options = typeof first === "string" ? third : (second as MockInputOptions);
  for (const data of Object.values(packets)) mustBeObject(data);
  knownOptions("mockNodeInput", options, mockOptions);
  const { idempotencyKey, context = {} } = options;
  return new NodeInput(packets, {
    flowId: "test_flow",
    executionId: randomUUID(),
    nodeId: "node",
    packetId: "pk_1",
    attempt: 1,
    traceHeaders: {},
    signal: new AbortController().signal,
    ...context,
    idempotencyKey,
  });
}

export type Delivered =
  | { readonly status: "processed"; readonly output: NodeOutput }
  /** Its key is completed: acknowledged, and the node was not called. `warning`: it was completed with another packet. */
  | { readonly status: "acknowledged"; readonly output: NodeOutput; readonly warning?: string };

export interface DeliverOptions {
  /** Default: a ledger in memory, one for each node. */
  readonly store?: Store;
}

const ledgers = new WeakMap<FlowNode, Store>();

/**
 * One delivery, as a durable edge makes it: a key that is completed is acknowledged without calling the node, one in
 * progress is waited for, a new one is delivered and then completed. What the node throws is thrown; its key is free again.
 *
 * @example
 * await deliver(node, input); // calls it
 * await deliver(node, input); // does not
 */
export async function deliver(node: FlowNode, input: NodeInput, { store = ledgerOf(node) }: DeliverOptions = {}): Promise<Delivered> {
  const { idempotencyKey, flowId } = input.context;
  if (idempotencyKey === undefined) return { status: "processed", output: await handle(node, input) };
  const packets = Object.fromEntries(input.ports.map((port) => [port, input.packet(port).data]));
  let output = new NodeOutput();
  try {
    const { status } = await once(store, { scope: flowId, key: key.of(idempotencyKey), input: packets }, async () => {
      output = await handle(node, input);
    });
    return { status: status === "executed" ? "processed" : "acknowledged", output };
  } catch (error) {
    if (!(error instanceof MismatchError)) throw error;
    const warning = `the key "${idempotencyKey}" was completed with another packet; it is probably too general`;
    return { status: "acknowledged", output, warning };
  }
}

function ledgerOf(node: FlowNode): Store {
  const store = ledgers.get(node) ?? createStore(memoryBackend(createMemoryLedger()), { purgeEveryMs: 0 });
  ledgers.set(node, store);
  return store;
}
