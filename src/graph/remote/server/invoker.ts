import { InvalidInputError, MismatchError, ResultNotKeptError, RunningError } from "../../../core/errors/errors.js";
import { key } from "../../../core/ledger/key.js";
import { once } from "../../../core/ledger/once.js";
import type { Store } from "../../../core/store/store.js";
import { BoundedCall } from "../../../core/work/bounded-call.js";
import { type FlowNode, handle, type NodeContext, NodeInput } from "../../node/node.js";
import { NodeError } from "../../node/node-error.js";
import { type Answer, failed, packetJson, type SentPacket } from "../protocol/answer.js";
import type { Invocation } from "../protocol/invocation.js";
import type { NodeServerPolicy } from "./options.js";

/** The keys of kept answers. A scope of their own, because the store may also be that of a runtime. */
const scope = "onceflow.node-server";

/** When the caller should try again, if all slots are taken. */
const busyRetryAfterMs = 1000;

const stoppingMessage = "the node server is stopping; try again later";

/**
 * Calls nodes for invocations that arrived over any protocol:
 *
 * 1. Refuse: the server stops, the node is unknown, or all slots are taken.
 * 2. With a key: `once` in the store. A kept answer is replayed, a running invocation is waited for, a failure is not kept.
 * 3. Call the node. Its signal aborts at the deadline of this invocation.
 * 4. Answer at the deadline at the latest. A node that goes on keeps its slot and its key until it returns, and its answer is kept.
 *
 * Never rejects: each error is an answer.
 */
export class Invoker {
  readonly #store: Store;
  readonly #policy: NodeServerPolicy;
  readonly #running = new Set<InvokedCall>();
  #stopping = false;
  #drained: () => void = () => {};

  constructor(store: Store, policy: NodeServerPolicy) {
    this.#store = store;
    this.#policy = policy;
  }

  get inFlight(): number {
    return this.#running.size;
  }

  get isStopping(): boolean {
    return this.#stopping;
  }

  async invoke(invocation: Invocation): Promise<Answer> {
    const { nodes, concurrency, deadlineMsMax } = this.#policy;
    if (this.#stopping) return failed("TEMPORARY", stoppingMessage);
    const node = nodes.get(invocation.operationId);
    if (node === undefined)
      return failed("TEMPORARY", `this server has no node "${invocation.operationId}"; deploy it, or correct the registry`, {
        status: 404,
      });
    if (this.#running.size >= concurrency)
      return failed("RATE_LIMITED", `the node server runs ${concurrency} invocations, its limit`, { retryAfterMs: busyRetryAfterMs });
    const timeoutMs = Math.min(invocation.deadlineMs ?? deadlineMsMax, deadlineMsMax);
    const call = new InvokedCall();
    this.#running.add(call);
    const work = this.#answer(node, invocation, timeoutMs, call).finally(() => this.#end(call));
    const timeoutError = () => new NodeError("TIMEOUT", `the node did not return within ${timeoutMs} ms`);
    try {
      return await call.bound(this.#store.clock, { timeoutMs, graceMs: 0, timeoutError }, work);
    } catch (error) {
      return answerOf(error);
    }
  }

  async #answer(node: FlowNode, invocation: Invocation, timeoutMs: number, call: InvokedCall): Promise<Answer> {
    const { clock } = this.#store;
    const input = new NodeInput(invocation.inputs, new InvocationContext(invocation, call, clock.now() + timeoutMs, () => clock.now()));
    if (invocation.idempotencyKey === undefined) {
      call.hasBegun = true;
      return { outputs: await callNode(node, input), replayed: false };
    }
    const { leaseMs, retentionMs } = this.#policy;
    const { signal } = call.waiting;
    const options = { scope, key: dedupeKey(invocation), input: invocation.inputs, leaseMs, retentionMs, waitMs: timeoutMs, signal };
    const { status, value } = await once(this.#store, options, (attempt) => {
      signal.throwIfAborted();
      call.hasBegun = true;
      call.lease = () => attempt.signal;
      return callNode(node, input);
    });
    return { outputs: value as readonly SentPacket[], replayed: status === "replayed" };
  }

  #end(call: InvokedCall): void {
    this.#running.delete(call);
    if (this.#running.size === 0) this.#drained();
  }

  /**
   * Refuses new invocations, waits up to `graceMs` for running ones, then aborts their signals. An invocation that waits for its key ends
   * at once: the key's lease could expire during the grace period, and the server would begin the node only to abort it.
   */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    for (const call of this.#running) if (!call.hasBegun) call.waiting.abort(new NodeError("TEMPORARY", stoppingMessage));
    if (this.#running.size === 0) return;
    await new Promise<void>((resolve) => {
      const cancel = this.#store.clock.after(graceMs, resolve);
      this.#drained = () => {
        cancel();
        resolve();
      };
    });
    for (const call of this.#running) call.abort(new NodeError("TEMPORARY", "the node server has stopped"));
  }
}

/** A call whose signal also aborts when the lease of its key is lost: another process may call the node then. */
class InvokedCall extends BoundedCall {
  /** Ends the wait for the key. */
  readonly waiting = new AbortController();
  /** Whether the node was called. */
  hasBegun = false;
  lease: (() => AbortSignal) | undefined;

  constructor() {
    super(() => (this.lease === undefined ? [] : [this.lease()]));
  }
}

/** An error of the node, apart from errors of the ledger: a node may use `once` itself, and throw its errors. */
class ThrownByNode extends Error {
  constructor(cause: unknown) {
    super("", { cause });
    // The attempt log has the name of the node's own error.
    this.name = cause instanceof Error ? cause.name : typeof cause;
  }
}

async function callNode(node: FlowNode, input: NodeInput): Promise<readonly SentPacket[]> {
  try {
    const { sent } = await handle(node, input);
    for (const packet of sent) checkJson(packet);
    return sent;
  } catch (error) {
    throw new ThrownByNode(error);
  }
}

/** A Date or a BigInt would arrive as something else, or not at all. */
function checkJson({ port, data }: SentPacket): void {
  try {
    packetJson(data, `the packet for port "${port}"`);
  } catch (error) {
    throw new NodeError("VALIDATION", error instanceof Error ? error.message : String(error));
  }
}

/** Text where the store allows it, so that `onceflow keys` shows what the key is about. */
function dedupeKey({ flowId, nodeId, idempotencyKey }: Invocation) {
  const parts = [flowId, nodeId, idempotencyKey];
  const text = JSON.stringify(parts);
  return Buffer.byteLength(text) <= dedupeKeyBytesMax && text.isWellFormed() ? key.of(text) : key.from(parts);
}

const dedupeKeyBytesMax = 512;

function answerOf(error: unknown): Answer {
  if (error instanceof ThrownByNode) return answerOfNode(error.cause);
  if (NodeError.is(error)) return failed(error.code, error.message);
  if (error instanceof MismatchError)
    return failed("VALIDATION", "the idempotency key was used with other inputs; the edge's key template is probably too general");
  if (error instanceof RunningError) return failed("TIMEOUT", "an earlier invocation with this idempotency key is still running");
  if (error instanceof ResultNotKeptError)
    return failed("PERMANENT", "the node ran with this idempotency key before, but its answer was too large to keep");
  if (error instanceof InvalidInputError) return failed("VALIDATION", error.message);
  // The details may name hosts or paths of the store: they are for the operator of this server.
  const why = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  process.emitWarning(`[onceflow] a node server could not use its store: ${why}`, {
    type: "OnceflowWarning",
    code: "ONCEFLOW_NODE_SERVER_STORE",
  });
  return failed("TEMPORARY", "the store of the node server did not answer");
}

function answerOfNode(error: unknown): Answer {
  if (NodeError.is(error)) return failed(error.code, error.message, { retryAfterMs: error.retryAfterMs });
  const message = error instanceof Error ? error.message || error.name : "the node threw a value that is not an Error";
  return failed("TEMPORARY", message, { status: 500 });
}

class InvocationContext implements NodeContext {
  readonly flowId: string;
  readonly executionId: string;
  readonly nodeId: string;
  readonly packetId: string;
  readonly idempotencyKey: string | undefined;
  readonly attempt: number;
  readonly traceHeaders: Readonly<Record<string, string>>;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly #call: BoundedCall;
  readonly #limitAt: number;
  readonly #now: () => number;

  constructor(invocation: Invocation, call: BoundedCall, limitAt: number, now: () => number) {
    this.flowId = invocation.flowId;
    this.executionId = invocation.executionId;
    this.nodeId = invocation.nodeId;
    this.packetId = invocation.packetId;
    this.idempotencyKey = invocation.idempotencyKey;
    this.attempt = invocation.attempt;
    this.traceHeaders = invocation.traceHeaders;
    this.settings = invocation.settings;
    this.#call = call;
    this.#limitAt = limitAt;
    this.#now = now;
  }

  get signal(): AbortSignal {
    return this.#call.signal();
  }

  get remainingMs(): number {
    return Math.max(0, this.#limitAt - this.#now());
  }
}
