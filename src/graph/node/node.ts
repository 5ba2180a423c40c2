import { InvalidInputError } from "../../core/errors/errors.js";
import { pushOrCreate } from "../../core/values/push-or-create.js";
import { NodeError } from "./node-error.js";
import { mustBeObject, Packet } from "./packet.js";

/** Facts about one call of a node. */
export interface NodeContext {
  readonly flowId: string;
  readonly executionId: string;
  readonly nodeId: string;
  /** The same at every attempt to deliver the packet. */
  readonly packetId: string;
  /** The key that the edge's template or expression made from the packet: pass it to providers. Undefined if the edge has no key. */
  readonly idempotencyKey: string | undefined;
  /** Attempt number, from 1. */
  readonly attempt: number;
  /** When the packet was sent: milliseconds since 1970 on the store's clock. Undefined if the packet was not stored. */
  readonly sentAt?: number | undefined;
  /** W3C trace context of the trigger. */
  readonly traceHeaders: Readonly<Record<string, string>>;
  /** Aborts at the node's time limit, or when another worker may have taken the packet over. */
  readonly signal: AbortSignal;
  /** Milliseconds until the node's time limit, at the moment of reading. Undefined: no limit is known. */
  readonly remainingMs?: number | undefined;
  /** `settings` of the node in the document. */
  readonly settings?: Readonly<Record<string, unknown>> | undefined;
}

/** The input of a node: one packet for each filled input port. */
export class NodeInput {
  readonly context: NodeContext;
  readonly #packets: Readonly<Record<string, Readonly<Record<string, unknown>>>>;

  constructor(packets: Readonly<Record<string, Readonly<Record<string, unknown>>>>, context: NodeContext) {
    this.#packets = packets;
    this.context = context;
  }

  /** Names of the ports that have a packet. */
  get ports(): readonly string[] {
    return Object.keys(this.#packets);
  }

  /** Whether the port has a packet. A port with `required: false` may have none. */
  has(port: string): boolean {
    return Object.hasOwn(this.#packets, port);
  }

  /** The packet at a port. Throws NodeError INPUT_MISSING if the port has none. */
  packet(port: string): Packet {
    const data = this.has(port) ? this.#packets[port] : undefined;
    if (data !== undefined) return new Packet(data);
    const there = this.ports.map((name) => `"${name}"`).join(", ") || "none";
    throw new NodeError("INPUT_MISSING", `no packet at port "${port}"; ports with a packet: ${there}`);
  }
}

/** The output of a node: any number of packets, sent to any of its output ports, in order. */
export class NodeOutput {
  #sent: { readonly port: string; readonly data: Readonly<Record<string, unknown>> }[] = [];

  /** Sends a packet to a port. Throws InvalidInputError for an empty port name, and NodeError VALIDATION if `data` is not an object. */
  send(port: string, data: Readonly<Record<string, unknown>>): this {
    if (typeof port !== "string" || port === "") throw new InvalidInputError("port", "must be the name of an output");
    mustBeObject(data);
    this.#sent = pushOrCreate(this.#sent, { port, data });
    return this;
  }

  /** The packets sent so far. */
  get sent(): readonly { readonly port: string; readonly data: Readonly<Record<string, unknown>> }[] {
    return this.#sent;
  }
}

/** What a node returns: its output, or nothing if it sends no packets. */
// biome-ignore lint/suspicious/noConfusingVoidType: a node that sends no packets returns nothing
export type Handled = NodeOutput | void;

/**
 * Base class of nodes with settings or state. A plain function of the input is a node, too.
 *
 * @example
 * class Charge extends BaseNode {
 *   readonly operationId = "charge_payment";
 *   handle(input: NodeInput) {
 *     return new NodeOutput().send("out", { charged: input.packet("in").getString("orderId") });
 *   }
 * }
 */
export abstract class BaseNode {
  /** The operationId of the node in the document. */
  abstract readonly operationId: string;

  /** Called once, before the first packet, with the node's `settings` from the document. */
  init(_settings: Readonly<Record<string, unknown>>): void | Promise<void> {}

  /** Handles one delivery. */
  abstract handle(input: NodeInput): Handled | Promise<Handled>;

  /**
   * Handles a batch, if the edge has `batching`. Returns one result per input, in order: an Error as a result fails that delivery
   * alone; throwing fails all.
   */
  handleBatch?(inputs: readonly NodeInput[]): Promise<readonly (Handled | Error)[]>;
}

/** A node as a function. */
export type NodeFunction = (input: NodeInput) => Handled | Promise<Handled>;
/** A node: an object of a class that extends BaseNode, or a function. */
export type FlowNode = BaseNode | NodeFunction;

/** Calls a node and checks its output. Synchronous if the node is. */
export function handle(node: FlowNode, input: NodeInput): NodeOutput | Promise<NodeOutput> {
  const output = typeof node === "function" ? node(input) : node.handle(input);
  return isPromise(output) ? output.then(outputOf) : outputOf(output);
}

function isPromise(value: unknown): value is Promise<unknown> {
  return typeof (value as { readonly then?: unknown } | undefined)?.then === "function";
}

export function outputOf(output: unknown): NodeOutput {
  if (output === undefined) return new NodeOutput();
  if (output instanceof NodeOutput) return output;
  throw new NodeError(
    "PERMANENT",
    `a node must return a NodeOutput or nothing, not ${output === null ? "null" : `something of type ${typeof output}`}`,
  );
}
