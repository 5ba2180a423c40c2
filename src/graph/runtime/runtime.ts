import { ConfigurationError, InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { checkName } from "../../core/ledger/key.js";
import { duration } from "../../core/ledger/options.js";
import type { PageCursor, QueueCount } from "../../core/packets/operation.js";
import type { OperatorOptions, OperatorResult } from "../../core/packets/operator.js";
import { type ExecutionRecord, type ExecutionStatus, type FlowState, type PacketRecord, statusOf } from "../../core/packets/packet.js";
import { requirePackets, type Store } from "../../core/store/store.js";
import { type AttributeValue, attributeText, checkAttribute } from "../../core/values/attributes.js";
import { sleep } from "../../core/work/clock.js";
import type { FlowPlan } from "../plan/plan.js";
import { alertAhead } from "./alerts/alert.js";
import { type Data, decodePayload } from "./delivery/payload.js";
import { routeFlows } from "./flows/flows.js";
import type { Routed } from "./flows/route.js";
import { RouteTable } from "./flows/route-table.js";
import { type PacketTrace, tracePacket } from "./history/packet-view.js";
import { type HistoryPage, type HistoryQuery, readHistory } from "./history/read-history.js";
import { changeFlow, discardLetter, retryLetter } from "./operator-actions.js";
import { type ResolvedOptions, type RuntimeOptions, resolveOptions } from "./runtime-options.js";
import { type TriggerContext, type Triggered, type TriggerOptions, trigger } from "./trigger.js";
import { type Listener, Listeners, type RuntimeEvent } from "./views/event.js";
import { EventReporter } from "./views/event-reporter.js";
import { executionNo, packetNo } from "./views/ids.js";
import { Counters, type RuntimeMetrics } from "./views/metrics.js";
import {
  type DeadLetterDetails,
  type DeadLetterView,
  deadLetterDetails,
  deadLetterView,
  type ExecutionDetails,
  type ExecutionView,
  executionDetails,
  executionView,
} from "./views/views.js";
import { ExecutionNotFoundError, WaitTimeoutError } from "./views/wait-errors.js";
import { PacketWorker } from "./worker/packet-worker.js";
import { checkEdge, warnOfStranded } from "./worker/stranded.js";

/** Which page of a list to return. */
export interface Page {
  /** At most 1,000; default 100. */
  readonly limit?: number;
  /** The id of the last item of the previous page. */
  readonly before?: string;
}

/** Which executions to list. */
export interface ExecutionsQuery extends Page {
  readonly flow?: string;
  readonly status?: ExecutionStatus;
  /** Only executions of this scope. "": only those without a scope. */
  readonly scope?: string;
  /** Only executions with this attribute. */
  readonly attribute?: { readonly name: string; readonly value: AttributeValue };
}

/** A flow of the runtime, with its state in the store. */
export interface FlowInfo {
  readonly id: string;
  readonly state: FlowState;
  readonly plan: FlowPlan;
}

const pageMax = 1000;

/** Options of `runtime.wait`. */
export interface WaitOptions {
  /** Ends the wait: `wait` rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Default: no limit. */
  readonly timeoutMs?: number;
}

const pageNames: OptionNames<Page> = { limit: true, before: true };
const waitOptions: OptionNames<WaitOptions> = { signal: true, timeoutMs: true };

/**
 * Creates a runtime that runs flows. `trigger` sends a packet into a flow; the runtime's worker delivers it, and the packets that
 * nodes send, from node to node. A packet of a durable edge is in the store before its node is called. Throws ConfigurationError
 * if a document is invalid or a node is missing, and InvalidInputError for wrong options.
 *
 * @example
 * const runtime = await createRuntime({ store, documents: ["orders.flowdsl.yaml"], nodes: { charge_payment: charge } });
 * const { executionId } = await runtime.trigger("orders", "TakeOrder", { orderId: "o-1" }, { key: "o-1" });
 */
export async function createRuntime(options: RuntimeOptions): Promise<Runtime> {
  const resolved = resolveOptions(options);
  const { store } = options;
  requirePackets(store);
  // Subworkflow nodes trigger flows of this runtime, which does not exist before its nodes.
  let runtime: Runtime | undefined;
  const { routed, close } = await routeFlows(options, resolved, {
    async run(flow, entry, data, key, { signal, executionId: parent }) {
      const scope = await scopeOf(store, parent);
      const { executionId = "" } = await (runtime as Runtime).trigger(flow, entry, data, { key, scope });
      return await (runtime as Runtime).wait(executionId, { signal });
    },
  });
  await prepareFlows(store, routed);
  runtime = new Runtime(store, routed, resolved, close);
  await runtime.start();
  return runtime;
}

/** Lets the store create what it has for each flow with keys, before the first packet. */
async function prepareFlows({ packets }: Store, flows: ReadonlyMap<string, Routed>): Promise<void> {
  for (const { plan } of flows.values()) {
    const { id, keyCollection, edges } = plan;
    const hasKeys = edges.some(({ delivery }) => delivery.key !== undefined);
    if (hasKeys || keyCollection !== undefined) await packets.prepareKeys?.(id, keyCollection?.name);
  }
}

/** Runs flows on a store. Made by `createRuntime`. */
export class Runtime {
  readonly store: Store;
  readonly #flows: ReadonlyMap<string, Routed>;
  readonly #options: ResolvedOptions;
  readonly #listeners = new Listeners();
  readonly #counters = new Counters();
  readonly #reporter: EventReporter;
  readonly #worker: PacketWorker;
  readonly #triggerContext: TriggerContext;
  readonly #closeNodes: () => void;
  #forgetClose: () => void = () => {};
  #stopping: Promise<void> | undefined;

  constructor(store: Store, flows: ReadonlyMap<string, Routed>, options: ResolvedOptions, closeNodes: () => void = () => {}) {
    this.store = store;
    this.#closeNodes = closeNodes;
    this.#flows = flows;
    this.#options = options;
    this.#reporter = new EventReporter(store.name, this.#counters, this.#listeners);
    this.#worker = new PacketWorker(store, new RouteTable(flows), options, this.#reporter);
    const { sender, states, memoryQueues } = this.#worker;
    this.#triggerContext = { store, sender, states, memoryQueues, options, reporter: this.#reporter };
  }

  /** Starts the worker. `createRuntime` has called it. */
  async start(): Promise<void> {
    await this.#worker.start();
    this.#forgetClose = this.store.beforeClose(() => this.stop());
    // Only a warning depends on it: a store that cannot be read fails the calls that need it.
    if (this.#options.work) warnOfStranded(this.store, this.#flows).catch(() => {});
  }

  /**
   * Sends a packet into a flow. Resolves when the packet is in the store; at a direct entry point, when its nodes have returned
   * (their errors are thrown). `entry` may be undefined if the flow has one entry point. Throws InvalidInputError for an unknown
   * flow or entry point and for a payload that does not match its schema, and ConfigurationError if the runtime is stopped
   * (`RUNTIME_STOPPED`) or the flow is archived (`FLOW_ARCHIVED`) or paused and stores nothing (`FLOW_PAUSED`).
   */
  async trigger(flow: string, entry: string | undefined, payload: Data, options: TriggerOptions = {}): Promise<Triggered> {
    if (this.#stopping !== undefined) throw new ConfigurationError("[onceflow] the runtime has been stopped", { code: "RUNTIME_STOPPED" });
    return await trigger(this.#triggerContext, this.#flow(flow), entry, payload, options);
  }

  // ——— read

  /** The flows of this runtime, with their states. */
  async flows(): Promise<FlowInfo[]> {
    return await Promise.all(
      [...this.#flows.values()].map(async ({ plan }) => ({ id: plan.id, state: await this.store.packets.flowState(plan.id), plan })),
    );
  }

  /** The plans of all flows of this runtime. */
  get plans(): readonly FlowPlan[] {
    return [...this.#flows.values()].map(({ plan }) => plan);
  }

  /** The plan of a flow; undefined if this runtime does not have the flow. */
  plan(flow: string): FlowPlan | undefined {
    return this.#flows.get(flow)?.plan;
  }

  /** Lists executions, newest first, a page at a time. */
  async executions({ flow, status, scope, attribute, ...page }: ExecutionsQuery = {}): Promise<ExecutionView[]> {
    const { packets } = this.store;
    knownOptions("executions", page, { flow: true, status: true, scope: true, attribute: true, ...pageNames });
    const last = page.before === undefined ? undefined : await packets.execution(executionNo(page.before));
    if (page.before !== undefined && last === undefined) throw pageGone("execution", page.before);
    const before = last && { at: last.createdAt, no: last.no };
    const query = {
      limit: limitOf(page),
      ...(flow !== undefined && { flow }),
      ...(status && { status }),
      ...(scope !== undefined && { scope: checkedScope(scope) }),
      ...(attribute && { attribute: checkedAttribute(attribute) }),
      ...(before && { before }),
    };
    return (await packets.executions(query)).map(executionView);
  }

  /** An execution in detail; undefined if the store has none with this id. Throws InvalidInputError for a malformed id. */
  async execution(id: string): Promise<ExecutionDetails | undefined> {
    const found = await this.store.packets.execution(executionNo(id));
    return found && (await this.#details(found));
  }

  async #details(found: ExecutionRecord): Promise<ExecutionDetails> {
    const { packets } = this.store;
    return executionDetails(found, await packets.notes(found.no, pageMax), await packets.packetsOf(found.no, pageMax));
  }

  /**
   * The history of an execution, oldest first, a page at a time: its deliveries, if the option `history` records them, and unusual events.
   * Throws ExecutionNotFoundError if there is no such execution, and InvalidInputError for a malformed id or option.
   */
  async history(id: string, query: HistoryQuery = {}): Promise<HistoryPage> {
    const { packets } = this.store;
    const found = await packets.execution(executionNo(id));
    if (found === undefined) throw new ExecutionNotFoundError(id);
    return await readHistory(packets, found.no, query, (queue) => this.#nodeOf(found.flow, queue));
  }

  /**
   * Which delivery sent a packet, and how its own deliveries ended: also of a dead letter, and of a packet that is no longer in the store, if the history
   * has it. Undefined if nothing is known of the packet. Throws InvalidInputError for a malformed id.
   */
  async packet(id: string): Promise<PacketTrace | undefined> {
    return await tracePacket(this.store.packets, packetNo(id), (flow, queue) => this.#nodeOf(flow, queue));
  }

  #nodeOf(flow: string, queue: string): string | undefined {
    return this.#flows.get(flow)?.routes.get(queue)?.node.plan.id;
  }

  /**
   * Resolves when the execution has ended, packets on ephemeral edges included. Rejects with WaitTimeoutError after
   * `timeoutMs`, with ExecutionNotFoundError if there is none, and with InvalidInputError for a malformed id or option.
   */
  async wait(id: string, options: WaitOptions = {}): Promise<ExecutionDetails> {
    knownOptions("wait", options, waitOptions);
    const { signal, timeoutMs = Number.POSITIVE_INFINITY } = options;
    if (timeoutMs !== Number.POSITIVE_INFINITY) duration("timeoutMs", timeoutMs);
    const { clock } = this.store;
    const until = clock.now() + timeoutMs;
    for (;;) {
      const changed = this.#nextEnd(id);
      try {
        // Reads the counters only: reading packets of a running execution is slow in a large backlog.
        const found = await this.store.packets.execution(executionNo(id));
        if (found === undefined) throw new ExecutionNotFoundError(id);
        if (statusOf(found) !== "running") return await this.#details(found);
        const left = Math.min(this.#options.pollMs, until - clock.now());
        if (left <= 0) throw new WaitTimeoutError(id, timeoutMs);
        // Polls as well: if another process ends the execution, no event arrives here.
        const stop = new AbortController();
        const either = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
        await Promise.race([changed.ended, sleep(clock, left, either)]).finally(() => stop.abort());
      } finally {
        changed.forget();
      }
    }
  }

  #nextEnd(id: string): { readonly ended: Promise<void>; readonly forget: () => void } {
    let forget = (): void => {};
    const ended = new Promise<void>((resolve) => {
      forget = this.#listeners.add((event: RuntimeEvent) => {
        if (event.type === "ended" && event.executionId === id) resolve();
      });
    });
    return { ended, forget };
  }

  /** Lists dead letters, newest first, a page at a time. */
  async deadLetters({ flow, queue, ...page }: Page & { readonly flow?: string; readonly queue?: string } = {}): Promise<DeadLetterView[]> {
    knownOptions("deadLetters", page, { flow: true, queue: true, ...pageNames });
    const before = page.before === undefined ? undefined : await this.#deadCursor(page.before);
    const query = {
      limit: limitOf(page),
      ...(flow !== undefined && { flow }),
      ...(queue !== undefined && { name: queue }),
      ...(before && { before }),
    };
    return (await this.store.packets.deadLetters(query)).map(deadLetterView);
  }

  /** A dead letter in detail; undefined if there is none with this id. Throws InvalidInputError for a malformed id. */
  async deadLetter(id: string): Promise<DeadLetterDetails | undefined> {
    const found = await this.store.packets.packet(packetNo(id));
    const port = found && this.#flows.get(found.flow)?.routes.get(found.queue)?.port;
    return found?.dead ? deadLetterDetails(found, port ?? found.queue) : undefined;
  }

  async #deadCursor(id: string): Promise<PageCursor> {
    const found = await this.store.packets.packet(packetNo(id));
    if (!found?.dead) throw pageGone("dead letter", id);
    return { at: found.dead.at, no: found.no };
  }

  /**
   * Retries a dead letter: its packet is delivered again with the same key; its history is kept, and its retries start over.
   * Returns false if there is no such dead letter. Throws ConfigurationError if it cannot be delivered: `EDGE_GONE` (the
   * document no longer has its edge) or `PAYLOAD_LOST` (its payload was lost with the memory of a process).
   */
  retry(id: string): Promise<boolean>;
  /** For an operator: written to the operator log in the same commit. `false`: there is no such dead letter. */
  retry(id: string, operator: OperatorOptions): Promise<OperatorResult | false>;
  async retry(id: string, operator?: OperatorOptions): Promise<boolean | OperatorResult> {
    const routeOf = ({ flow, queue }: PacketRecord) => this.#flows.get(flow)?.routes.get(queue);
    const prepare = (letter: PacketRecord) => {
      checkEdge(letter, this.#flows.get(letter.flow));
      const route = routeOf(letter);
      return route && alertAhead(this.#worker.sender, route, { ...letter, data: decodePayload(letter.payload).data });
    };
    const retried = (letter: PacketRecord) => this.#reporter.reportDeadLetterRetried(routeOf(letter), letter);
    const done = await retryLetter({ store: this.store, prepare, retried }, id, operator);
    this.#worker.poll();
    return done;
  }

  /** @deprecated Use `retry`. */
  reinject(id: string): Promise<boolean> {
    return this.retry(id);
  }

  /** Removes a dead letter permanently. Returns false if there is no such dead letter. */
  discard(id: string): Promise<boolean>;
  /** For an operator: written to the operator log in the same commit, with the reason. `false`: there is no such dead letter. */
  discard(id: string, operator: OperatorOptions & { readonly reason: string }): Promise<OperatorResult | false>;
  async discard(id: string, operator?: OperatorOptions): Promise<boolean | OperatorResult> {
    const done = await discardLetter(this.store, id, operator);
    this.#worker.poll();
    return done;
  }

  /** Numbers of packets by edge and state. */
  counts(): Promise<readonly QueueCount[]> {
    return this.store.packets.counts();
  }

  /** Counters of this process. */
  get metrics(): RuntimeMetrics {
    return this.#counters.metrics(this.#worker.capacity.taken);
  }

  // ——— control

  /** Calls `listener` with each event of this process. Returns a function that removes the listener. */
  on(listener: Listener): () => void {
    return this.#listeners.add(listener);
  }

  /**
   * Pauses a flow, in all processes: running deliveries finish, and no new ones start. Triggers are still accepted. With `operator` it is
   * written to the operator log in the same commit, also for `resume` and `archive`.
   */
  pause(flow: string): Promise<void>;
  pause(flow: string, operator: OperatorOptions): Promise<OperatorResult>;
  pause(flow: string, operator?: OperatorOptions): Promise<unknown> {
    return this.#setState(flow, "paused", operator);
  }

  /** Resumes a paused or archived flow. */
  resume(flow: string): Promise<void>;
  resume(flow: string, operator: OperatorOptions): Promise<OperatorResult>;
  resume(flow: string, operator?: OperatorOptions): Promise<unknown> {
    return this.#setState(flow, "active", operator);
  }

  /** Like `pause`, and triggers are rejected. */
  archive(flow: string): Promise<void>;
  archive(flow: string, operator: OperatorOptions): Promise<OperatorResult>;
  archive(flow: string, operator?: OperatorOptions): Promise<unknown> {
    return this.#setState(flow, "archived", operator);
  }

  async #setState(flow: string, state: FlowState, operator: OperatorOptions | undefined): Promise<OperatorResult | undefined> {
    this.#flow(flow);
    const { isSet, result } = await changeFlow(this.store, flow, state, operator);
    if (!isSet) return result;
    this.#worker.states.set(flow, state);
    this.#worker.poll();
    const type = state === "active" ? "resumed" : state;
    this.#listeners.notify({ type, flow });
    return result;
  }

  /** Resolves when this process has no packet and no packet is due. Does not wait for delayed, held or joining packets. */
  idle(): Promise<void> {
    return this.#worker.idle();
  }

  /** Claims nothing more, waits at most `graceMs` for running nodes, and releases packets that were not begun. */
  stop({ graceMs = 10_000 }: { readonly graceMs?: number } = {}): Promise<void> {
    duration("graceMs", graceMs);
    this.#forgetClose();
    this.#stopping ??= this.#worker.stop(graceMs).finally(this.#closeNodes);
    return this.#stopping;
  }

  #flow(id: string): Routed {
    const flow = this.#flows.get(id);
    if (flow) return flow;
    throw new InvalidInputError(
      "flow",
      `flow "${String(id)}" not found; flows of this runtime: ${[...this.#flows.keys()].join(", ") || "none"}`,
    );
  }
}

/** "": the execution is not stored, or has no scope. */
async function scopeOf({ packets }: Store, id: string): Promise<string> {
  const found = id === "" ? undefined : await packets.execution(executionNo(id));
  return found?.scope ?? "";
}

function checkedScope(scope: string): string {
  if (scope !== "") checkName("scope", scope);
  return scope;
}

function checkedAttribute(attribute: NonNullable<ExecutionsQuery["attribute"]>): { readonly name: string; readonly text: string } {
  knownOptions("attribute", attribute, { name: true, value: true });
  const { name, value } = attribute;
  checkAttribute("attribute", name, value);
  return { name, text: attributeText(value) };
}

/** The cursor was deleted. Starting from the first page instead would make a paging caller loop without end. */
function pageGone(what: string, id: string): InvalidInputError {
  return new InvalidInputError("before", `${what} ${id} no longer exists; start again with the first page`);
}

function limitOf({ limit = 100 }: Page): number {
  if (Number.isInteger(limit) && limit >= 1 && limit <= pageMax) return limit;
  throw new InvalidInputError("limit", `must be a whole number from 1 to ${pageMax}, not ${String(limit)}`);
}
