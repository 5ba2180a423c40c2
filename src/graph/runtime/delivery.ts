import { StoreRefusedError } from "../../core/errors.js";
import type { PacketRecord } from "../../core/packet.js";
import type { NewPacket, PacketAnswer, PacketOutcome } from "../../core/packet-operation.js";
import { untilAnswered } from "../../core/save.js";
import type { Store } from "../../core/store.js";
import type { handle, NodeOutput } from "../node/node.js";
import { NodeError } from "../node/node-error.js";
import { alertFor } from "./alert.js";
import { type Attempt, leaseLost } from "./attempt.js";
import type { BatchCall } from "./batch.js";
import { type Failure, failureOf, judge } from "./failure.js";
import { historyOf, withFailure } from "./history.js";
import { executionId, packetId } from "./ids.js";
import { packetFor, type Sender } from "./outgoing.js";
import { encodeOutput, inputsOf, noTrace, type Trace } from "./payload.js";
import { recover } from "./recovery.js";
import type { Route } from "./routes.js";
import { type Leaving, runStage, type Sent } from "./stage.js";

/** What a delivery needs of whoever makes it. */
export interface DeliveryHost {
  readonly store: Store;
  readonly random: () => number;
  readonly crashMax: number;
  readonly timeoutMs: number;
  readonly graceMs: number;
  senderOf(execution: number | null, trace: Trace): Sender;
  /** Throws where a queue in memory is full. */
  needsRoom(sent: readonly Sent[]): void;
  /** True: this process takes the packet in the commit that sends it, and has kept room for it. */
  reserve(route: Route, no: number): boolean;
  giveBack(packets: readonly NewPacket[]): void;
  /** Whether it is still this process's, as far as can be known before a node is called. */
  isOurs(packet: PacketRecord): true | Promise<boolean>;
  /** Waits for its turn where an edge saves only now and then. */
  beforeCommit(route: Route): Promise<void>;
}

/** How a delivery ended, and what the store said to it. */
export interface DeliveryResult {
  readonly to: PacketOutcome;
  readonly failure: Failure | undefined;
  readonly sent: readonly NewPacket[];
  /** What goes on in memory, now that this is in the store. */
  readonly ephemeral: readonly Sent[];
  readonly trace: Trace;
  readonly answer: PacketAnswer;
  readonly ms: number;
}

interface Settling {
  readonly to: PacketOutcome;
  readonly packets: readonly NewPacket[];
  readonly outputs: readonly string[];
  readonly ephemeral?: readonly Sent[];
  readonly trace?: Trace;
  readonly failure?: Failure;
}

/**
 * One delivery: the packet is ours and its key has begun → the node, and those that direct edges lead to → one commit:
 * the key is completed, the packet is gone, what it sends on is there, what was held by it is awake.
 *
 * If we die before that commit, the packet is in the store under our lease; when that lapses, somebody delivers it again.
 */
export async function deliver(
  host: DeliveryHost,
  route: Route,
  packet: PacketRecord,
  attempt: Attempt,
  batch?: BatchCall,
): Promise<DeliveryResult> {
  const { store } = host;
  const began = { at: Date.now(), clock: store.clock.now() };
  let settling = await settlingOf(host, route, packet, attempt, batch, began);
  if (settling.to.kind === "done") await host.beforeCommit(route);
  const answer = await commit(host, packet, settling).catch((error: unknown) => {
    host.giveBack(settling.packets);
    if (!(error instanceof StoreRefusedError)) throw error;
    // The database will not take what the node has sent, ever.
    settling = failed(host, route, packet, failureOf(new NodeError("PERMANENT", error.message)), began);
    return commit(host, packet, settling);
  });
  const { to, failure, packets: sent, ephemeral = [], trace = noTrace } = settling;
  return { to, failure, sent, ephemeral, trace, answer, ms: store.clock.now() - began.clock };
}

/** Not begun, because this process stops: that was no attempt. */
export async function handBack(host: DeliveryHost, packet: PacketRecord, batch?: BatchCall): Promise<DeliveryResult> {
  batch?.leave();
  const settling: Settling = { to: { kind: "release" }, packets: [], outputs: [] };
  const answer = await commit(host, packet, settling);
  return { to: settling.to, failure: undefined, sent: [], ephemeral: [], trace: noTrace, answer, ms: 0 };
}

async function settlingOf(
  host: DeliveryHost,
  route: Route,
  packet: PacketRecord,
  attempt: Attempt,
  batch: BatchCall | undefined,
  began: { readonly at: number; readonly clock: number },
): Promise<Settling> {
  let joined = false;
  try {
    if (packet.crashes > 0) {
      const recovered = await recover(host, route, packet);
      if (recovered) return { outputs: [], ...recovered };
    }
    const { inputs, trace } = inputsOf(packet, route.port);
    const call =
      batch &&
      ((...[, input]: Parameters<typeof handle>): Promise<NodeOutput> => {
        joined = true;
        return batch.join(input, () => (attempt.aborted === undefined ? host.isOurs(packet) : no));
      });
    const stage = {
      flowId: route.flow.id,
      executionId: packet.execution === null ? "" : executionId(packet.execution),
      packetId: packetId(packet.no),
      attempt: packet.attempt,
      traceHeaders: trace,
      signal: attempt.signal,
      ready: () => mayCall(host, packet, attempt),
    };
    // Before its time begins: asking is not the node's doing.
    const asking = stage.ready();
    if (asking !== undefined) await asking;
    const { timeoutMs = host.timeoutMs } = route.delivery;
    const running = runStage(route.node, inputs, packet.key?.key, stage, call);
    const leaving = await attempt.within(host.store.clock, timeoutMs, host.graceMs, running);
    return done(host, route, packet, leaving, trace);
  } catch (error) {
    return failed(host, route, packet, failureOf(error), began);
  } finally {
    if (!joined) batch?.leave();
  }
}

const no = Promise.resolve(false);

/** Undefined: yes. Else it has to be asked. Once its time is over, the next node of a stage is not begun: it is tried again. */
function mayCall(host: DeliveryHost, packet: PacketRecord, attempt: Attempt): Promise<void> | undefined {
  if (attempt.aborted !== undefined) throw attempt.aborted;
  const ours = host.isOurs(packet);
  if (ours === true) return undefined;
  return ours.then((is) => {
    if (!is) throw leaseLost();
    // Asking may have taken all of its time.
    if (attempt.aborted !== undefined) throw attempt.aborted;
  });
}

function done(host: DeliveryHost, route: Route, { execution }: PacketRecord, leaving: Leaving, trace: Trace): Settling {
  const outputs = leaving.outputs.map((output) => kept(() => encodeOutput(output, host.store.valueBytesMax)));
  const ephemeral = leaving.routed.filter(inMemory);
  host.needsRoom(ephemeral);
  return {
    to: { kind: "done", keep: route.keep, note: null },
    packets: packetsFor(
      host,
      leaving.routed.filter((sent) => !inMemory(sent)),
      host.senderOf(execution, trace),
    ),
    outputs,
    ephemeral,
    trace,
  };
}

/** Room is kept when all of them could be made: what throws on the way has kept none. */
export function packetsFor(host: Pick<DeliveryHost, "reserve">, sent: readonly Sent[], sender: Sender): NewPacket[] {
  const packets = sent.map((each) => kept(() => packetFor(each, sender)));
  const alerts = packets.flatMap((packet, i) => {
    const failure = historyOf(packet.failed ?? null).at(-1);
    return failure === undefined ? [] : alertFor(sender, (sent[i] as Sent).route, { ...packet, attempt: 0 }, failure);
  });
  const taken = packets.map((packet, i) =>
    packet.failed === undefined && host.reserve((sent[i] as Sent).route, packet.no) ? { ...packet, claim: true } : packet,
  );
  return [...taken, ...alerts];
}

/** The node has done its work, and what it sends cannot be kept: to call it again would not help. */
function kept<T>(encode: () => T): T {
  try {
    return encode();
  } catch (error) {
    throw new NodeError("PERMANENT", failureOf(error).message, error);
  }
}

function inMemory({ route }: Sent): boolean {
  return route.delivery.mode === "ephemeral";
}

function failed(
  host: DeliveryHost,
  route: Route,
  packet: PacketRecord,
  failure: Failure,
  began: { readonly at: number; readonly clock: number },
): Settling {
  const failures = packet.attempt - packet.since - packet.crashes;
  const judged = judge(failure, route.delivery.retry, failures, host.random);
  const about = { attempt: packet.attempt, at: began.at, ms: Math.round(host.store.clock.now() - began.clock) };
  const history = withFailure(packet.history, failure, about);
  if (judged.kind === "retry") return { to: { kind: "retry", delayMs: judged.delayMs, history }, packets: [], outputs: [], failure };
  return { to: { kind: "dead", history }, packets: alertFor(host.senderOf(null, noTrace), route, packet, failure), outputs: [], failure };
}

/** A failed save is not a failed delivery: tried until it is in the store, or the packet is somebody else's. */
function commit({ store }: DeliveryHost, { no, owner, attempt }: PacketRecord, { to, packets, outputs }: Settling): Promise<PacketAnswer> {
  // The number under which it was claimed: this process may have got another one since.
  const operation = { verb: "settlePacket", no, worker: owner as number, attempt, to, packets, outputs } as const;
  return untilAnswered(store, () => store.commit({ packet: operation }), Number.POSITIVE_INFINITY);
}
