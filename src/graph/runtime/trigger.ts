import { ConfigurationError, InvalidInputError, NotKnownError } from "../../core/errors/errors.js";
import { checkName, key as keys } from "../../core/ledger/key.js";
import { once } from "../../core/ledger/once.js";
import type { NewExecution, NewPacket, PacketAnswer, SendPackets } from "../../core/packets/operation.js";
import { requireTransactions, type Tx } from "../../core/store/store.js";
import { afterEffect, beforeEffect } from "../../core/work/until-answered.js";
import { Attempt } from "./delivery/attempt.js";
import { fingerprintOf, packetsFor } from "./delivery/outgoing.js";
import { pack } from "./delivery/pack.js";
import { type Data, noTrace, type Trace } from "./delivery/payload.js";
import { keyOf, type Leaving, noLeaving, problemOf, runStage } from "./delivery/stage.js";
import type { Entry, Routed } from "./flows/routes.js";
import type { Ephemeral } from "./memory-edges/ephemeral.js";
import type { ResolvedOptions } from "./runtime-options.js";
import type { Teller } from "./views/event-reporter.js";
import { executionId } from "./views/ids.js";
import type { Courier } from "./worker/packet-worker.js";

export interface TriggerOptions {
  /** Names this trigger: the same key again is the same execution. */
  readonly key?: string;
  readonly traceHeaders?: Trace;
  /** An open transaction of the user's own: the packet is sent when that commits, or never. */
  readonly tx?: Tx;
}

export interface Triggered {
  /** Undefined: the entry's filter does not let it in. */
  readonly executionId: string | undefined;
  /** "duplicate": the key had been used, and this is its execution. */
  readonly status: "started" | "duplicate" | "filtered";
  /** The key had been used with another payload, or at another entry of the flow. */
  readonly mismatch: boolean;
}

export interface Around {
  readonly courier: Courier;
  readonly ephemeral: Ephemeral;
  readonly options: ResolvedOptions;
  readonly teller: Teller;
}

/** A packet comes in: checked, then one commit that has the execution, the packet, and the key of the trigger. */
export async function trigger(
  around: Around,
  flow: Routed,
  name: string | undefined,
  payload: Data,
  options: TriggerOptions,
): Promise<Triggered> {
  const entry = entryOf(flow, name);
  const { route, filter } = entry;
  if (typeof payload !== "object" || payload === null || Array.isArray(payload))
    throw new InvalidInputError("payload", "must be an object with named members");
  if (options.key !== undefined) checkName("key", options.key);
  const passes = filter?.evaluate({ payload }) ?? { ok: true, value: true };
  if (!passes.ok) throw new InvalidInputError("payload", `the entry's filter has no value for it: ${passes.why}`);
  if (!passes.value) return { executionId: undefined, status: "filtered", mismatch: false };
  const problems = route.packet?.check(payload) ?? [];
  const problem = problemOf(route, payload, problems);
  if (problem !== undefined) throw new InvalidInputError("payload", problem, problems);
  const key = keyOf(route, payload);
  if (!key.ok) throw new InvalidInputError("payload", key.why);
  if (route.delivery.mode === "direct") return await triggerDirect(around, entry, payload, options);
  return await triggerDurable(around, entry, payload, options);
}

function entryOf({ plan, entries }: Routed, name: string | undefined): Entry {
  const [single] = entries;
  if (single !== undefined && entries.length === 1 && (name === undefined || single.route.node.plan.id === name)) return single;
  const found = entries.filter(({ route }) => name === undefined || route.node.plan.id === name);
  const [only, second] = found;
  if (only !== undefined && second === undefined) return only;
  const names = entries.map(({ route }) => route.node.plan.id).join(", ");
  if (only === undefined)
    throw new InvalidInputError("entry", `flow "${plan.id}" is not entered at "${String(name)}"; it is at ${names || "no node"}`);
  if (name !== undefined) return only;
  throw new InvalidInputError("entry", `flow "${plan.id}" has several entries; say which: ${names}`);
}

async function triggerDurable(
  around: Around,
  { route }: Entry,
  payload: Data,
  { key, traceHeaders = noTrace, tx }: TriggerOptions,
): Promise<Triggered> {
  const { courier, options, teller } = around;
  const { store, numbers } = courier;
  const no = numbers.next();
  const { sender } = courier;
  const flow = route.flow.id;
  const sent = [{ route, data: payload, problem: undefined }];
  const packets = packetsFor(tx === undefined ? sender : { ...sender, reserve: () => false }, sent, { execution: no, trace: traceHeaders });
  const execution: NewExecution = {
    no,
    flow,
    entry: route.queue,
    input: (packets[0] as NewPacket).payload,
    key:
      key === undefined ? null : { scope: triggerScope(flow), key, fingerprint: fingerprintOf(payload), retentionMs: options.retentionMs },
    retentionMs: options.retentionMs,
  };
  const send: SendPackets = { verb: "sendPackets", worker: courier.worker, execution, packets };
  let answer: PacketAnswer;
  try {
    answer = tx === undefined ? await beforeEffect(store, () => store.commit({ packet: send })) : await within(store, tx, send);
  } catch (error) {
    if (error instanceof NotKnownError && tx === undefined) void pursue(courier, send);
    else courier.giveBack(packets);
    throw error;
  }
  if (answer.kind === "packetsSent") {
    if (tx === undefined) teller.triggered(route, no, key);
    courier.take(answer, packets);
    return { executionId: executionId(no), status: "started", mismatch: false };
  }
  courier.giveBack(packets);
  if (answer.kind === "triggered") {
    const mismatch = answer.mismatch || (await beganElsewhere(courier, answer.execution, route.queue));
    return { executionId: executionId(answer.execution), status: "duplicate", mismatch };
  }
  throw archived(flow);
}

/** The key names a trigger of the flow, wherever that entered: at another entry the same payload is another request. */
async function beganElsewhere({ store }: Courier, no: number, entry: string): Promise<boolean> {
  const found = await beforeEffect(store, () => store.packets.execution(no));
  return found !== undefined && found.entry !== entry;
}

function archived(flow: string): ConfigurationError {
  return new ConfigurationError(`[onceflow] flow "${flow}" is archived, and takes no triggers; resume it first`, { code: "FLOW_ARCHIVED" });
}

/**
 * Its sender has been told that nobody knows. It may be in the store, and ours: then nobody but this process would deliver
 * it, so the same is sent until there is an answer.
 */
async function pursue(courier: Courier, send: SendPackets): Promise<void> {
  const { store } = courier;
  try {
    const answer = await afterEffect(store, () => store.commit({ packet: send }), { what: "a trigger" });
    if (answer.kind === "packetsSent") courier.take(answer, send.packets);
    else courier.giveBack(send.packets);
  } catch {
    // The store is closed: what is ours there is handed back, or lapses.
    courier.giveBack(send.packets);
  }
}

async function within(store: Courier["store"], tx: Tx, send: SendPackets): Promise<PacketAnswer> {
  requireTransactions(store);
  return await (store.packets.sendWithin as NonNullable<Courier["store"]["packets"]["sendWithin"]>)(tx, send);
}

/** Nothing else of such a trigger is kept; what went to a port that the document does not declare is. */
async function keepLetters(courier: Courier, leaving: Leaving, trace: Trace): Promise<void> {
  if (leaving.undeclared.length === 0) return;
  const { packets } = pack(courier.sender, { ...noLeaving(), undeclared: leaving.undeclared }, { execution: null, trace });
  const { store, worker } = courier;
  const send: SendPackets = { verb: "sendPackets", worker, execution: null, packets };
  const answer = await afterEffect(store, () => store.commit({ packet: send }), { what: "a packet for a port that is not declared" });
  if (answer.kind === "packetsSent") courier.take(answer, packets);
  else courier.giveBack(packets);
}

/** The scope of the keys of a flow's triggers. */
function triggerScope(flow: string): string {
  return `${flow}.triggers`;
}

/** The call of a direct trigger. The runtime does not retry it; the caller of a keyed one may, so a late success must settle its key. */
class DirectAttempt extends Attempt {
  isKeyed = false;

  override get isRetriedAfterTimeout(): boolean {
    return this.isKeyed;
  }
}

/** Nothing of it is kept: the caller waits for the nodes, and gets their errors. With a key it runs once. */
async function triggerDirect(
  around: Around,
  { route }: Entry,
  payload: Data,
  { key, traceHeaders = noTrace, tx }: TriggerOptions,
): Promise<Triggered> {
  const { courier, ephemeral, options, teller } = around;
  const state = courier.states.of(route.flow.id);
  if (state === "archived") throw archived(route.flow.id);
  if (state === "paused")
    throw new ConfigurationError(`[onceflow] flow "${route.flow.id}" is paused, and keeps nothing that could wait; resume it first`, {
      code: "FLOW_PAUSED",
    });
  if (tx !== undefined)
    throw new InvalidInputError("tx", `flow "${route.flow.id}" keeps nothing: all of its edges are direct or ephemeral`);
  const no = courier.numbers.next();
  const run = async (): Promise<void> => {
    teller.triggered(route, no, key);
    const attempt = new DirectAttempt(route, { no, execution: no, attempt: 1 }, traceHeaders);
    attempt.isKeyed = key !== undefined;
    const name = keyOf(route, payload);
    const running = runStage(attempt, { [route.port]: payload }, name.ok ? name.value : undefined);
    const { clock } = courier.store;
    const leaving = running instanceof Promise ? await attempt.within(clock, options.graceMs, options.timeoutMs, running) : running;
    await keepLetters(courier, leaving, traceHeaders);
    if (leaving.ephemeral.length === 0) return;
    courier.needsRoom(leaving.ephemeral);
    ephemeral.send(leaving.ephemeral, { execution: no, trace: traceHeaders }, []);
  };
  if (key === undefined) {
    await run();
    return { executionId: executionId(no), status: "started", mismatch: false };
  }
  const { status, value } = await once(
    courier.store,
    {
      scope: `${route.flow.id}.direct_triggers`,
      key: keys.of(key),
      input: payload,
      retentionMs: options.retentionMs ?? "forever",
    },
    async () => {
      await run();
      return no;
    },
  );
  return { executionId: executionId(Number(value)), status: status === "executed" ? "started" : "duplicate", mismatch: false };
}
