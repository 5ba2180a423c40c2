import { InvalidInputError } from "../../core/errors/errors.js";
import { pushOrCreate } from "../../core/values/push-or-create.js";
import { NodeError } from "./node-error.js";
import { mustBeObject, Packet } from "./packet.js";

/** Where and why a node is called. */
export interface NodeContext {
  readonly flowId: string;
  readonly executionId: string;
  readonly nodeId: string;
  /** The same at every delivery of one packet. */
  readonly packetId: string;
  /** What the edge's template made of the packet: hand it to providers. Undefined where the edge has no key. */
  readonly idempotencyKey: string | undefined;
  /** From 1; the same packet again has the next one. */
  readonly attempt: number;
  readonly traceHeaders: Readonly<Record<string, string>>;
  /** Aborts when the node's time is over, or another worker may have the packet. */
  readonly signal: AbortSignal;
}

/** What a node is given: a packet for each of its ports that is filled. */
export class NodeInput {
  readonly context: NodeContext;
  readonly #packets: Readonly<Record<string, Readonly<Record<string, unknown>>>>;

  constructor(packets: Readonly<Record<string, Readonly<Record<string, unknown>>>>, context: NodeContext) {
    this.#packets = packets;
    this.context = context;
  }

  get ports(): readonly string[] {
    return Object.keys(this.#packets);
  }

  /** NodeError INPUT_MISSING where the port has none. */
  packet(port: string): Packet {
    const data = Object.hasOwn(this.#packets, port) ? this.#packets[port] : undefined;
    if (data !== undefined) return new Packet(data);
    const there = this.ports.map((name) => `"${name}"`).join(", ") || "none";
    throw new NodeError("INPUT_MISSING", `nothing has come in at port "${port}"; ports with a packet: ${there}`);
  }
}

/** What a node sends on: any number of packets, to any of its ports, in order. */
export class NodeOutput {
  #sent: { readonly port: string; readonly data: Readonly<Record<string, unknown>> }[] = [];

  send(port: string, data: Readonly<Record<string, unknown>>): this {
    if (typeof port !== "string" || port === "") throw new InvalidInputError("port", "must be the name of an output");
    mustBeObject(data);
    this.#sent = pushOrCreate(this.#sent, { port, data });
    return this;
  }

  get sent(): readonly { readonly port: string; readonly data: Readonly<Record<string, unknown>> }[] {
    return this.#sent;
  }
}

// biome-ignore lint/suspicious/noConfusingVoidType: a node that sends nothing on returns nothing
export type Handled = NodeOutput | void;

/** A node with settings and a life of its own. A plain function of its input is a node, too. */
export abstract class BaseNode {
  /** As in the document. */
  abstract readonly operationId: string;

  /** Called once, before the first packet. */
  init(_settings: Readonly<Record<string, unknown>>): void | Promise<void> {}

  abstract handle(input: NodeInput): Handled | Promise<Handled>;

  /**
   * Where an edge delivers in batches: all of them in one call. One answer for each, in order; an Error in the place of an
   * output fails that one alone, a throw fails all.
   */
  handleBatch?(inputs: readonly NodeInput[]): Promise<readonly (Handled | Error)[]>;
}

export type NodeFunction = (input: NodeInput) => Handled | Promise<Handled>;
export type FlowNode = BaseNode | NodeFunction;

/** Calls it, and is sure to get an output: at once, where the node does not wait for anything. */
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
