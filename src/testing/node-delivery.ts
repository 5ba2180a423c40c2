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

/** Options of `mockNodeInput`. */
export interface MockInputOptions {
  /** The key that the edge's template would make of the packet. Default: none, as on an edge without a key. */
  readonly idempotencyKey?: string;
  /** Members of the node's context that differ from the defaults, such as `attempt` or `flowId`. */
  readonly context?: Partial<Omit<NodeContext, "idempotencyKey">>;
}

const mockOptions: OptionNames<MockInputOptions> = { idempotencyKey: true, context: true };

type PacketData = Readonly<Record<string, unknown>>;

/**
 * Makes the input of a node for a test: a packet at one port, or one packet at each of several ports.
 *
 * @throws NodeError ("VALIDATION") when a packet is not an object; InvalidInputError when an option is unknown.
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

/** The result of `deliver`. */
export type Delivered =
  /** The node was called. */
  | { readonly status: "processed"; readonly output: NodeOutput }
  /** The key was completed before, so the node was not called. `warning`: the key was completed with another packet. */
  | { readonly status: "acknowledged"; readonly output: NodeOutput; readonly warning?: string };

/** Options of `deliver`. */
export interface DeliverOptions {
  /** The store that keeps the completed keys. Default: a store in memory, one for each node. */
  readonly store?: Store;
}

const ledgers = new WeakMap<FlowNode, Store>();

/**
 * Delivers an input to a node as a durable edge does. If the key is completed, the delivery is acknowledged and the node is
 * not called; if another delivery with the key is in progress, this one waits for it; otherwise the node is called and the
 * key is completed. Without a key the node is always called.
 *
 * @throws The error that the node throws; the key is free again.
 *
 * @example
 * await deliver(node, input); // calls the node
 * await deliver(node, input); // acknowledges, because the key is completed
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
    const warning = `key "${idempotencyKey}" was completed with another packet; its template is probably too general`;
    return { status: "acknowledged", output, warning };
  }
}

function ledgerOf(node: FlowNode): Store {
  const store = ledgers.get(node) ?? createStore(memoryBackend(createMemoryLedger()), { purgeEveryMs: 0 });
  ledgers.set(node, store);
  return store;
}
