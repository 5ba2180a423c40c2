import { InvalidInputError, NotKnownError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { checkName } from "../../core/ledger/key.js";
import type { NewExecution, NewPacket, PacketAnswer, SendPackets } from "../../core/packets/operation.js";
import { requireTransactions, type Store, type Tx } from "../../core/store/store.js";
import { type Attributes, checkAttributes } from "../../core/values/attributes.js";
import { afterEffect, beforeEffect } from "../../core/work/until-answered.js";
import { keyOf, problemOf } from "./delivery/check.js";
import { fingerprintOf, packetsFor } from "./delivery/outgoing.js";
import { type Data, noTrace, type Trace } from "./delivery/payload.js";
import { type CommittingSender, withoutClaims } from "./delivery/sender.js";
import { type FlowStates, flowArchived } from "./flows/flow-states.js";
import type { Entry, Route, Routed } from "./flows/route.js";
import type { MemoryQueues } from "./memory-edges/memory-queues.js";
import type { ResolvedOptions } from "./runtime-options.js";
import { triggerDirect } from "./trigger-direct.js";
import type { EventReporter } from "./views/event-reporter.js";
import { executionId } from "./views/ids.js";

/** Options of `runtime.trigger`. */
export interface TriggerOptions {
  /** Idempotency key: triggering again with the same key returns the first execution. */
  readonly key?: string;
  /** W3C trace context, passed on to nodes. */
  readonly traceHeaders?: Trace;
  /** An open transaction of yours: the packet is sent if, and only if, the transaction commits. */
  readonly tx?: Tx;
  /** Whose execution it is, for example a tenant: executions are listed by it. Executions of subworkflows have the same. Default "": none. */
  readonly scope?: string;
  /** Names and values by which the execution is found. At most 16. They are not encrypted. */
  readonly attributes?: Attributes;
}

const optionNames: OptionNames<TriggerOptions> = { key: true, traceHeaders: true, tx: true, scope: true, attributes: true };

/** The result of `runtime.trigger`. */
export interface Triggered {
  /** Undefined if the entry point's filter rejected the payload. */
  readonly executionId: string | undefined;
  /** "duplicate": the key was used before; `executionId` is the first execution. "filtered": the filter rejected the payload. */
  readonly status: "started" | "duplicate" | "filtered";
  /** The key was used before with a different payload or at another entry point. */
  readonly mismatch: boolean;
}

/** What a trigger needs from its runtime. */
export interface TriggerContext {
  readonly store: Store;
  readonly sender: CommittingSender;
  readonly states: FlowStates;
  readonly memoryQueues: MemoryQueues;
  readonly options: ResolvedOptions;
  readonly reporter: EventReporter;
}

/**
 * A payload enters a flow:
 *
 * 1. Find the entry point, evaluate its filter, check the payload against its schema, make its key.
 * 2. A durable entry: one commit writes the execution, its first packet and the key of the trigger (`delivery/outgoing.ts`).
 *    If this worker has a free slot, the same commit claims the packet for it.
 * 3. `sender.receiveAnswer` (`worker/packet-sender.ts`) hands the claimed packet to the worker, which delivers it
 *    (`worker/packet-worker.ts`, from `#dispatch` on). Otherwise a poll of any worker claims the packet.
 *
 * An entry of mode `direct` stores no packet, only its key, if it has one, and dead letters: its nodes are called while the caller waits (`trigger-direct.ts`).
 */
export async function trigger(
  context: TriggerContext,
  flow: Routed,
  name: string | undefined,
  payload: Data,
  options: TriggerOptions,
): Promise<Triggered> {
  knownOptions("trigger", options, optionNames);
  const entry = entryOf(flow, name);
  const { route, filter } = entry;
  if (typeof payload !== "object" || payload === null || Array.isArray(payload))
    throw new InvalidInputError("payload", "must be an object");
  if (options.key !== undefined) checkName("key", options.key);
  const labels = labelsOf(route, options);
  const passes = filter?.evaluate({ payload }) ?? { ok: true, value: true };
  if (!passes.ok) throw new InvalidInputError("payload", `the entry point's filter cannot be evaluated: ${passes.why}`);
  if (!passes.value) return { executionId: undefined, status: "filtered", mismatch: false };
  // `packetsFor` makes the same checks again, for every packet that it sends, and turns a packet that fails one into a dead
  // letter. A trigger has a caller, who can correct the payload: the checks here reject before anything is written.
  const problems = route.packet?.check(payload) ?? [];
  const problem = problemOf(route, payload, problems);
  if (problem !== undefined) throw new InvalidInputError("payload", problem, problems);
  const key = keyOf(route, payload);
  if (!key.ok) throw new InvalidInputError("payload", key.why);
  if (route.delivery.mode !== "direct") return await triggerDurable(context, entry, payload, { ...options, labels });
  const { traceHeaders: trace = noTrace, tx } = options;
  const { execution, isNew } = await triggerDirect(context, { route, payload, key: options.key, trace, tx });
  return { executionId: executionId(execution), status: isNew ? "started" : "duplicate", mismatch: false };
}

/** The members of the execution; absent if it has none. */
type Labels = Pick<NewExecution, "scope" | "attributes">;

/** A direct entry point stores no execution that could be found. */
function labelsOf({ delivery, flow }: Route, { scope = "", attributes = {} }: TriggerOptions): Labels {
  if (scope !== "") checkName("scope", scope);
  checkAttributes("attributes", attributes);
  const labels = { ...(scope !== "" && { scope }), ...(Object.keys(attributes).length > 0 && { attributes }) };
  if (delivery.mode === "direct" && Object.keys(labels).length > 0)
    throw new InvalidInputError(
      Object.keys(labels)[0] as string,
      `is not possible here: the entry point of flow "${flow.id}" is direct, so the store keeps no execution that could be found by it`,
    );
  return labels;
}

function entryOf({ plan, entries }: Routed, name: string | undefined): Entry {
  const [only] = entries;
  if (entries.length === 1 && only !== undefined && (name === undefined || name === only.route.node.plan.id)) return only;
  const [first, second] = entries.filter(({ route }) => name === undefined || route.node.plan.id === name);
  // A node with several entry points: a name selects the first one.
  if (first !== undefined && (second === undefined || name !== undefined)) return first;
  const names = entries.map(({ route }) => route.node.plan.id).join(", ");
  if (first === undefined)
    throw new InvalidInputError("entry", `flow "${plan.id}" has no entry point "${String(name)}"; entry points: ${names || "none"}`);
  throw new InvalidInputError("entry", `flow "${plan.id}" has several entry points; choose one: ${names}`);
}

async function triggerDurable(
  context: TriggerContext,
  { route }: Entry,
  payload: Data,
  { key, traceHeaders = noTrace, tx, labels }: TriggerOptions & { readonly labels: Labels },
): Promise<Triggered> {
  const { store, sender, options, reporter } = context;
  const no = sender.next();
  const flow = route.flow.id;
  const sent = [{ route, data: payload, problem: undefined }];
  const packets = packetsFor(tx === undefined ? sender : withoutClaims(sender), sent, { execution: no, trace: traceHeaders });
  const execution: NewExecution = {
    no,
    flow,
    entry: route.queue,
    input: (packets[0] as NewPacket).payload,
    key:
      key === undefined ? null : { scope: triggerScope(flow), key, fingerprint: fingerprintOf(payload), retentionMs: options.retentionMs },
    retentionMs: options.retentionMs,
    ...labels,
  };
  const send: SendPackets = { verb: "sendPackets", worker: sender.worker, execution, packets };
  let answer: PacketAnswer;
  try {
    answer = tx === undefined ? await beforeEffect(store, () => store.commit({ packet: send })) : await sendWithin(store, tx, send);
  } catch (error) {
    if (error instanceof NotKnownError && tx === undefined) void retryUnknown(context, send);
    else sender.cancelSend(packets);
    throw error;
  }
  if (answer.kind === "packetsSent") {
    if (tx === undefined) reporter.reportTriggered(route, no, key);
    sender.receiveAnswer(answer, packets);
    return { executionId: executionId(no), status: "started", mismatch: false };
  }
  sender.cancelSend(packets);
  if (answer.kind === "triggered") {
    const mismatch = answer.mismatch || (await hasOtherEntry(store, answer.execution, route.queue));
    return { executionId: executionId(answer.execution), status: "duplicate", mismatch };
  }
  throw flowArchived(flow);
}

/** A key names a trigger of the whole flow: the same payload at another entry point is another request. */
async function hasOtherEntry(store: Store, no: number, entry: string): Promise<boolean> {
  const found = await beforeEffect(store, () => store.packets.execution(no));
  return found !== undefined && found.entry !== entry;
}

/**
 * The caller got NotKnownError: the reply to its trigger was lost. The packet may be in the store, claimed by this worker,
 * which would keep it from all others without delivering it. So the same send is repeated until the store answers.
 */
async function retryUnknown({ store, sender }: TriggerContext, send: SendPackets): Promise<void> {
  try {
    const answer = await afterEffect(store, () => store.commit({ packet: send }), { what: "a trigger" });
    if (answer.kind === "packetsSent") sender.receiveAnswer(answer, send.packets);
    else sender.cancelSend(send.packets);
  } catch {
    // The store is closed: packets that this worker owns there are released when it leaves, or when its lease expires.
    sender.cancelSend(send.packets);
  }
}

async function sendWithin(store: Store, tx: Tx, send: SendPackets): Promise<PacketAnswer> {
  requireTransactions(store);
  return await (store.packets.sendWithin as NonNullable<Store["packets"]["sendWithin"]>)(tx, send);
}

/** The ledger scope of the keys of a flow's triggers. */
function triggerScope(flow: string): string {
  return `${flow}.triggers`;
}
