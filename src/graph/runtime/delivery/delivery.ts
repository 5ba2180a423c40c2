import type { NewPacket, PacketAnswer, PacketOutcome, SettlePacket } from "../../../core/packets/operation.js";
import type { PacketRecord } from "../../../core/packets/packet.js";
import type { Store } from "../../../core/store/store.js";
import { afterEffect, failedOnce } from "../../../core/work/until-answered.js";
import type { handle, NodeOutput } from "../../node/node.js";
import { NodeError } from "../../node/node-error.js";
import { alertFor } from "../alerts/alert.js";
import type { Route } from "../flows/routes.js";
import { withFailure } from "../views/history.js";
import { executionId, packetId } from "../views/ids.js";
import { Attempt, leaseLost } from "./attempt.js";
import type { BatchCall } from "./batch.js";
import { type Failure, failureOf, judge } from "./failure.js";
import type { Sender } from "./outgoing.js";
import { pack } from "./pack.js";
import { decodePayload, inputsOf, type Payload } from "./payload.js";
import { recover } from "./recovery.js";
import { type Leaving, runStage, type Sent } from "./stage.js";

/** What a delivery needs of whoever makes it. */
export interface DeliveryHost {
  readonly store: Store;
  readonly sender: Sender;
  readonly random: () => number;
  readonly crashMax: number;
  readonly timeoutMs: number;
  readonly graceMs: number;
  /** Throws where a queue in memory is full. */
  needsRoom(sent: readonly Sent[]): void;
  giveBack(packets: readonly NewPacket[]): void;
  /** Its nodes have returned. */
  returned(delivery: Delivery): void;
  /** Whether it is still this process's, as far as can be known before a node is called. */
  isOurs(packet: PacketRecord, now?: number): true | Promise<boolean>;
  /** Waits for its turn where an edge saves only now and then. */
  beforeCommit(route: Route): Promise<void> | undefined;
  /** It is in the store. */
  delivered(delivery: Delivery, settling: Settling, answer: PacketAnswer): void;
  /** Not even a dead letter could be saved, or the store is closed: the packet stays ours until our lease is over. */
  trouble(error: unknown): void;
  /** However it ended. */
  ended(delivery: Delivery): void;
}

/** How a delivery ends, and what leaves with it. */
export interface Settling {
  readonly to: PacketOutcome;
  readonly packets: readonly NewPacket[];
  readonly outputs: readonly string[];
  /** What goes on in memory, once this is in the store. */
  readonly ephemeral: readonly Sent[];
  /** Marks of those, sent in the same commit. */
  readonly marks?: readonly NewPacket[];
  readonly failure: Failure | undefined;
}

export const nothing: readonly never[] = [];

/** A packet that this process has, on its way through a node. */
export class Delivery extends Attempt {
  readonly host: DeliveryHost;
  /** Among those of this process. */
  readonly no: number;
  declare readonly packet: PacketRecord;
  readonly batch: BatchCall | undefined;
  /** Where this process has sent it, what was sent; else it is read. */
  readonly #known: Payload | undefined;
  hasReturned = false;
  #beganAt = 0;

  constructor(
    host: DeliveryHost,
    no: number,
    route: Route,
    packet: PacketRecord,
    known: Payload | undefined,
    batch: BatchCall | undefined,
  ) {
    super(route, packet);
    this.host = host;
    this.no = no;
    this.#known = known;
    this.batch = batch;
  }

  get payload(): Payload {
    return this.#known ?? decodePayload(this.packet.payload);
  }

  /** When. */
  begin(): number {
    this.#beganAt = this.host.store.clock.now();
    return this.#beganAt;
  }

  /** Once its time is over, the next node of a stage is not begun: it is tried again. */
  override ready(now?: number): Promise<void> | undefined {
    if (this.isAborted) throw this.abortReason;
    const ours = this.host.isOurs(this.packet, now);
    return ours === true ? undefined : this.#wait(ours);
  }

  async #wait(ours: Promise<boolean>): Promise<void> {
    if (!(await ours)) throw leaseLost();
    // Asking may have taken all of its time.
    if (this.isAborted) throw this.abortReason;
  }

  override get failures(): number {
    const { attempt, since, crashes } = this.packet;
    return attempt - since - crashes;
  }

  /** Since it began. */
  get ms(): number {
    return this.host.store.clock.now() - this.#beganAt;
  }
}

/**
 * One delivery: the packet is ours and its key has begun → the node, and those that direct edges lead to → one commit:
 * the key is completed, the packet is gone, what it sends on is there, what was held by it is awake.
 *
 * If we die before that commit, the packet is in the store under our lease; when that lapses, somebody delivers it again.
 */
export async function deliver(delivery: Delivery, stopped: boolean): Promise<void> {
  const { host, route } = delivery;
  try {
    const working = stopped ? handedBack(delivery) : settlingOf(delivery);
    let settling = working instanceof Promise ? await working : working;
    const turn = settling.to.kind === "done" ? host.beforeCommit(route) : undefined;
    if (turn !== undefined) await turn;
    let answer: PacketAnswer;
    try {
      answer = await host.store.commit({ packet: settle(delivery, settling) });
    } catch (error) {
      [settling, answer] = await saveAgain(delivery, settling, error);
    }
    host.delivered(delivery, settling, answer);
  } catch (error) {
    host.trouble(error);
  } finally {
    host.ended(delivery);
  }
}

/** Not begun, because this process stops: that was no attempt. */
function handedBack({ batch }: Delivery): Settling {
  batch?.leave();
  return { to: { kind: "release" }, packets: nothing, outputs: nothing, ephemeral: nothing, failure: undefined };
}

/** At once, where nothing has to be waited for. */
function settlingOf(delivery: Delivery): Settling | Promise<Settling> {
  const { packet, batch, route } = delivery;
  if (route.report !== undefined) return route.report(delivery);
  if (packet.crashes > 0 || batch !== undefined) return carefully(delivery);
  try {
    const asking = delivery.ready(delivery.begin());
    const leaving = asking === undefined ? call(delivery) : asking.then(() => call(delivery));
    return leaving instanceof Promise ? ending(delivery, leaving) : done(delivery, leaving);
  } catch (error) {
    return failed(delivery, failureOf(error));
  }
}

async function ending(delivery: Delivery, leaving: Promise<Leaving>): Promise<Settling> {
  try {
    return done(delivery, await leaving);
  } catch (error) {
    return failed(delivery, failureOf(error));
  }
}

/** A worker died over it, or it is called together with others. */
async function carefully(delivery: Delivery): Promise<Settling> {
  const { host, packet, batch } = delivery;
  let joined = false;
  const join = (...[, input]: Parameters<typeof handle>): Promise<NodeOutput> => {
    joined = true;
    return (batch as BatchCall).join(input, () => (delivery.isAborted ? no : host.isOurs(packet)));
  };
  delivery.begin();
  try {
    const recovered = packet.crashes > 0 ? await recover(delivery) : undefined;
    if (recovered !== undefined) return recovered;
    await delivery.ready();
    return done(delivery, await call(delivery, batch && join));
  } catch (error) {
    return failed(delivery, failureOf(error));
  } finally {
    if (!joined) batch?.leave();
  }
}

const no = Promise.resolve(false);

/** The stage that begins with its node; bounded in time, where it has to be waited for. */
function call(delivery: Delivery, by?: typeof handle): Leaving | Promise<Leaving> {
  const { host, route, packet } = delivery;
  const { data, trace } = delivery.payload;
  delivery.trace = trace;
  const running = runStage(delivery, inputsOf(packet, route.port, data), packet.key?.key, by);
  return running instanceof Promise ? delivery.within(host.store.clock, host.graceMs, host.timeoutMs, running) : running;
}

function done(delivery: Delivery, leaving: Leaving): Settling {
  const { host, route, packet, trace } = delivery;
  const { ephemeral } = leaving;
  host.returned(delivery);
  if (ephemeral.length > 0) host.needsRoom(ephemeral);
  const packed = pack(host.sender, leaving, { execution: packet.execution, trace });
  const to = leaving.unrouted.length === 0 ? (route.keep ? doneAndKept : isDone) : unrouted(route.keep, leaving.unrouted);
  return { to, ...packed, ephemeral, failure: undefined };
}

const isDone: PacketOutcome = { kind: "done", keep: false, note: null };
function unrouted(keep: boolean, ports: readonly string[]): PacketOutcome {
  return { kind: "done", keep, note: "unrouted", about: [...new Set(ports)].join(", ").slice(0, 1000) };
}

const doneAndKept: PacketOutcome = { kind: "done", keep: true, note: null };

function failed(delivery: Delivery, failure: Failure): Settling {
  const { host, route, packet } = delivery;
  const judged = judge(failure, route.delivery.retry, delivery.failures, host.random);
  const ms = Math.round(delivery.ms);
  const history = withFailure(packet.history, failure, { attempt: packet.attempt, at: Date.now() - ms, ms });
  if (judged.kind === "dead") return dead(delivery, failure, history);
  const { delayMs } = judged;
  return { to: { kind: "retry", delayMs, history }, packets: nothing, outputs: nothing, ephemeral: nothing, failure };
}

/** Its alert is sent in the same commit. */
export function dead(delivery: Delivery, failure: Failure, history: string): Settling {
  const { host, route, packet, succeededLate } = delivery;
  const asks = route.node.plan.alert?.message !== undefined;
  // Not a spread: the packet of a suspect has its members from another object.
  const { no, execution, attempt } = packet;
  const packets = alertFor(host.sender, route, { no, execution, attempt, data: asks ? readable(delivery) : undefined }, failure);
  const note = succeededLate ? ({ note: "lateSuccess" } as const) : undefined;
  return { to: { kind: "dead", history, ...note }, packets, outputs: nothing, ephemeral: nothing, failure };
}

/** Undefined: it cannot be read here, for want of a key. Its packet is a dead letter all the same. */
function readable(delivery: Delivery): unknown {
  try {
    return delivery.payload.data;
  } catch {
    return undefined;
  }
}

function settle({ packet: { no, owner, attempt } }: Delivery, { to, packets, outputs, marks = nothing }: Settling): SettlePacket {
  // The number under which it was claimed: this process may have got another one since.
  return {
    verb: "settlePacket",
    no,
    worker: owner as number,
    attempt,
    to,
    packets: marks.length === 0 ? packets : [...packets, ...marks],
    outputs,
  };
}

/** A failed save is not a failed delivery: tried until it is in the store, or the packet is somebody else's. */
async function saveAgain(delivery: Delivery, settling: Settling, first: unknown): Promise<[Settling, PacketAnswer]> {
  const { store } = delivery.host;
  const { no, execution } = delivery.packet;
  const what = `the end of packet ${packetId(no)}${execution === null ? "" : ` of execution ${executionId(execution)}`}`;
  const save = (settling: Settling) => {
    const packet = settle(delivery, settling);
    return () => store.commit({ packet });
  };
  try {
    return [settling, await afterEffect(store, failedOnce(first, save(settling)), { what })];
  } catch (error) {
    delivery.host.giveBack(settling.packets);
    if (store.closed) throw error;
    // The database will not take what the node has sent, ever; or our own code cannot write it.
    const instead = failed(delivery, failureOf(new NodeError("PERMANENT", error instanceof Error ? error.message : String(error))));
    return [instead, await afterEffect(store, save(instead), { what })];
  }
}
