import { BoundedCall } from "../../../core/work/bounded-call.js";
import { systemClock } from "../../../core/work/clock.js";
import { Gate } from "../../../core/work/gate.js";
import { type BaseNode, type NodeInput, NodeOutput } from "../../node/node.js";
import { NodeError } from "../../node/node-error.js";
import { packetJson } from "../protocol/answer.js";
import type { Invocation } from "../protocol/invocation.js";
import type { Manifest } from "../server/manifest.js";
import { GrpcTransport } from "./grpc-transport.js";
import { HttpTransport } from "./http-transport.js";
import { checkNodeClientOptions, type NodeClientOptions, type NodeClientPolicy } from "./options.js";
import { RemoteNode, type RemoteNodeOptions } from "./remote-node.js";
import { abortError, type NodeHealth, type Transport } from "./transport.js";

/** When a delivery that found the queue full is tried again. */
const queueRetryAfterMs = 1000;
const askMs = 5000;

/**
 * The connection of a runtime to one node server. Its nodes share its connections and its limit of calls at a time. Throws
 * InvalidInputError for wrong options, and ConfigurationError (`MISSING_PACKAGE`) if the packages for gRPC are not installed.
 *
 * @example
 * const payments = new NodeClient({ url: "http://127.0.0.1:4100", concurrency: 20 });
 * const runtime = await createRuntime({ store, documents, nodes: { charge_payment: payments.node("charge_payment") } });
 */
export class NodeClient {
  readonly #policy: NodeClientPolicy;
  readonly #transport: Transport;
  readonly #gate: Gate;
  #running = 0;
  #queued = 0;

  constructor(options: NodeClientOptions) {
    this.#policy = checkNodeClientOptions(options);
    this.#gate = new Gate(this.#policy.concurrency);
    this.#transport = this.#policy.url.protocol.startsWith("grpc") ? new GrpcTransport(this.#policy) : new HttpTransport(this.#policy);
  }

  /** The URL of the server, without credentials. */
  get url(): string {
    return this.#policy.label;
  }

  /** A node of the server, for `nodes` of createRuntime. */
  node(operationId: string, options: Omit<RemoteNodeOptions, "operationId"> = {}): BaseNode {
    return new RemoteNode({ operationId, ...options }, (input, settings) => this.#invoke(input, settings));
  }

  /** Asks the server for its state. Rejects with NodeError if it does not answer within 5 s. */
  health(signal?: AbortSignal): Promise<NodeHealth> {
    return this.#ask((within) => this.#transport.health(within), signal);
  }

  /** Asks the server for its nodes. Rejects as `health` does. */
  manifest(signal?: AbortSignal): Promise<Manifest> {
    return this.#ask((within) => this.#transport.manifest(within), signal);
  }

  /** Closes the connections. Calls in progress end first. */
  close(): void {
    this.#transport.close();
  }

  async #invoke(input: NodeInput, { operationId, timeoutMs: own, streaming = false }: RemoteNodeOptions): Promise<NodeOutput> {
    const { context } = input;
    const { label } = this.#policy;
    const what = `node "${operationId}" at ${label}`;
    const inputs = packetsOf(input, what);
    const timeoutMs = Math.max(
      1,
      Math.floor(Math.min(context.remainingMs ?? this.#policy.timeoutMs, own ?? this.#policy.timeoutMs, this.#policy.timeoutMs)),
    );
    const sentBy = systemClock.now() + timeoutMs;
    const call = new BoundedCall(() => [context.signal]);
    const signal = call.signal();
    const work = this.#limited(signal, what, () => {
      // Time in the queue counts.
      const deadlineMs = Math.max(1, Math.floor(sentBy - systemClock.now()));
      return this.#transport.invoke({ ...invocationOf(input, operationId, inputs), deadlineMs }, { streaming, signal });
    });
    const timeoutError = () => new NodeError("TIMEOUT", `${what}: no answer within ${timeoutMs} ms`);
    const output = new NodeOutput();
    for (const { port, data } of await call.bound(systemClock, { timeoutMs, graceMs: 0, timeoutError }, work)) output.send(port, data);
    return output;
  }

  /** Runs `work` when a slot is free. Rejects at once if the queue is full, and when the signal aborts. */
  async #limited<Value>(signal: AbortSignal, what: string, work: () => Promise<Value>): Promise<Value> {
    const { queueMax, concurrency } = this.#policy;
    if (this.#running >= concurrency && this.#queued >= queueMax)
      throw new NodeError(
        "RATE_LIMITED",
        `${what}: ${concurrency} calls run and ${queueMax} wait; raise \`concurrency\`, or add servers`,
        undefined,
        {
          retryAfterMs: queueRetryAfterMs,
        },
      );
    this.#queued += 1;
    let isQueued = true;
    const leaveQueue = () => {
      if (isQueued) this.#queued -= 1;
      isQueued = false;
    };
    const turn = this.#gate.run(async () => {
      leaveQueue();
      // The caller has left while it was in the queue.
      if (signal.aborted) throw abortError(signal, what);
      this.#running += 1;
      try {
        return await work();
      } finally {
        this.#running -= 1;
      }
    });
    return await new Promise<Value>((resolve, reject) => {
      const abort = () => {
        leaveQueue();
        reject(abortError(signal, what));
      };
      if (signal.aborted) abort();
      signal.addEventListener("abort", abort, { once: true });
      turn.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
    });
  }

  #ask<Value>(question: (signal: AbortSignal) => Promise<Value>, signal?: AbortSignal): Promise<Value> {
    const call = new BoundedCall(() => (signal === undefined ? [] : [signal]));
    const timeoutError = () => new NodeError("TIMEOUT", `${this.#policy.label}: no answer within ${askMs} ms`);
    return call.bound(systemClock, { timeoutMs: askMs, graceMs: 0, timeoutError }, question(call.signal()));
  }
}

function invocationOf({ context }: NodeInput, operationId: string, inputs: Invocation["inputs"]): Omit<Invocation, "deadlineMs"> {
  const { flowId, executionId, nodeId, packetId, idempotencyKey, attempt, traceHeaders, settings = {} } = context;
  return { operationId, flowId, executionId, nodeId, packetId, idempotencyKey, attempt, traceHeaders, settings, inputs };
}

/** The packets by port. A value that JSON cannot hold exactly would arrive as another one. */
function packetsOf(input: NodeInput, what: string): Invocation["inputs"] {
  return Object.fromEntries(
    input.ports.map((port) => {
      const { data } = input.packet(port);
      try {
        packetJson(data, `the packet at port "${port}"`);
      } catch (error) {
        throw new NodeError("VALIDATION", `${what}: ${error instanceof Error ? error.message : String(error)}`, error);
      }
      return [port, data];
    }),
  );
}
