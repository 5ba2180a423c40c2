import type { RecordId } from "../ledger/record.js";
import type { LogEntry, NewLogEntry } from "../runs/log.js";
import type { Tx } from "../store/tx.js";
import type { Attributes } from "../values/attributes.js";
import type { DeliveryEntry, DeliveryQuery, NewDeliveryEntry } from "./delivery-entry.js";
import type {
  ExecutionNote,
  ExecutionRecord,
  ExecutionStatus,
  FlowState,
  PacketKey,
  PacketNote,
  PacketRecord,
  PacketState,
} from "./packet.js";

/**
 * Sends packets, and may begin an execution with them.
 *
 * Packet operations go through group commit. Each is atomic, and is sent again unchanged if its reply was lost: the second time it
 * finds what the first one did. One exception: a send without a new execution leaves no trace once its packets are delivered and removed.
 * Sent again after that, they are delivered again, unless they have a key, which acknowledges them as duplicates.
 */
export interface SendPackets {
  readonly verb: "sendPackets";
  /** The worker from whose range the packet numbers are. It claims packets with `claim`. */
  readonly worker: number;
  /** The execution that begins with these packets. Null: they belong to no execution, or to an existing one. */
  readonly execution: NewExecution | null;
  readonly packets: readonly NewPacket[];
}

/** An execution that a send begins. */
export interface NewExecution {
  readonly no: number;
  readonly flow: string;
  readonly entry: string;
  readonly input: string;
  /** The key of the trigger. It is completed in this commit, with the number of the execution in its note. */
  readonly key: (RecordId & Pick<PacketKey, "fingerprint" | "retentionMs">) | null;
  /** How long the execution is kept after its end. Null: forever. */
  readonly retentionMs: number | null;
  /** Whose execution it is, and values by which it is found. Undefined: none. They are not encrypted. */
  readonly scope?: string;
  readonly attributes?: Attributes;
}

/** A packet to send. */
export interface NewPacket {
  readonly no: number;
  readonly flow: string;
  readonly queue: string;
  readonly execution: number | null;
  readonly payload: string;
  readonly key: PacketKey | null;
  readonly lane: NewLane | null;
  readonly join: NewPart | null;
  /** Dead-letter settings for when the packet fails permanently. Null: it is dropped. */
  readonly letter: DeadLetter | null;
  readonly delayMs: number;
  /** A history that says what is wrong with the packet: it becomes a dead letter at once. */
  readonly failed?: string;
  /**
   * The ports of joins, `node.port`, that this packet or packets that follow from it may fill, always in the same order. Undefined: not
   * known, as for a packet of an earlier version. While an execution has such packets, its joins wait until it ends.
   */
  readonly reach?: readonly string[];
  /** The sender has a free slot: the packet is claimed in the commit that sends it, if nothing holds it. */
  readonly claim: boolean;
}

interface NewLane {
  readonly name: string;
  /** A dead letter keeps its position: the packets behind it wait until it is retried or discarded. */
  readonly deadBlocks: boolean;
}

/**
 * The packet fills one port of a node with several ports. The packet that fills the last port is delivered with the others as its
 * parts.
 */
export interface NewPart {
  /** Names the node within the execution. */
  readonly node: string;
  readonly port: string;
  /** All ports of the node. The joined packet gets the key of the first port, in this order, whose part has a key. */
  readonly ports: readonly string[];
  /** Ports without which the node can be called, once no packet can fill them any more. */
  readonly optional?: readonly string[];
  /** How long the part waits for the others. */
  readonly waitMs: number;
}

/** Settings for a packet that becomes a dead letter. */
export interface DeadLetter {
  /** Name of the dead-letter queue. */
  readonly name: string;
  /** Null: kept forever. */
  readonly retentionMs: number | null;
  /** Sent in the same commit if the store itself makes the dead letter: the sender may have stopped by then. */
  readonly alert?: Alert;
}

/** A packet of the same flow, without an execution. Its note says why the dead letter was made. */
export interface Alert {
  readonly no: number;
  readonly queue: string;
  readonly payload: string;
}

/** Records how a delivery ended. Fenced by (worker, attempt). */
export interface SettlePacket {
  readonly verb: "settlePacket";
  readonly no: number;
  readonly worker: number;
  readonly attempt: number;
  readonly to: PacketOutcome;
  /** Packets to send in the same commit. */
  readonly packets: readonly NewPacket[];
  /** Outputs that no edge accepts: stored with the execution. */
  readonly outputs: readonly string[];
  /** Undefined: the history of the delivery is not kept. A release and a trial have none. */
  readonly entry?: NewDeliveryEntry;
}

/** How a delivery ended. */
export type PacketOutcome =
  /**
   * Completes the key and acknowledges packets that it held. With the note "restarted" the key becomes free. `keep`: the packet
   * stays until its execution ends.
   */
  | { readonly kind: "done"; readonly keep: boolean; readonly note: "skipped" | "restarted" | "unrouted" | null; readonly about?: string }
  /** The packet is due again after a delay, and keeps its key. */
  | { readonly kind: "retry"; readonly delayMs: number; readonly history: string | null }
  /** The packet becomes a dead letter. Its key is free, and the oldest packet that the key held is due. */
  | { readonly kind: "dead"; readonly history: string | null; readonly note?: "lateSuccess" }
  /** The packet was not delivered, and the attempt does not count. It is due at once, or after `delayMs`. */
  | { readonly kind: "release"; readonly delayMs?: number }
  /**
   * The worker keeps the packet, in the same attempt. Only the history is written: a note for the next worker, in case this one
   * crashes.
   */
  | { readonly kind: "trial"; readonly history: string };

/** One operation on packets that goes through group commit. */
export type PacketOperation = SendPackets | SettlePacket;

/** What the store answers to a {@link PacketOperation}. `now` is the store's time. */
export type PacketAnswer =
  /** `placed` has one entry for each packet, in order. */
  | { readonly kind: "packetsSent"; readonly now: number; readonly placed: readonly Placed[]; readonly ended: readonly Ended[] }
  | {
      readonly kind: "packetSettled";
      readonly now: number;
      readonly placed: readonly Placed[];
      readonly woken: readonly Woken[];
      /** Executions that this settle ended. */
      readonly ended: readonly Ended[];
    }
  /**
   * The flow was already triggered with this key, by `execution`; with a different fingerprint, if `mismatch`. Nothing was
   * written.
   */
  | { readonly kind: "triggered"; readonly execution: number; readonly mismatch: boolean }
  /** The flow is archived. Nothing was written. */
  | { readonly kind: "archived" }
  /** The fence (worker, attempt) is stale: another worker has the packet, or it was removed. Nothing was changed. */
  | { readonly kind: "packetStale" };

/** The result of sending one packet. */
export type Placed =
  /** The sender has claimed the packet. It has `parts` if it filled the last port of a node. */
  | { readonly kind: "claimed"; readonly packet: PacketRecord }
  | { readonly kind: Exclude<PacketState, "dead" | "kept"> }
  /**
   * The key was already completed, so the packet was acknowledged and not stored. Only packets that are claimed at once get this
   * answer; others are checked when they are claimed.
   */
  | { readonly kind: "duplicate" | "mismatch" }
  /**
   * The packet is a dead letter: it was sent as `failed`, or its key was completed with a different fingerprint and its edge asks
   * for a dead letter.
   */
  | { readonly kind: "dead" };

/**
 * A packet that waited for another packet and is now due, acknowledged, dead or closed. `closed`: a part was removed, because a port
 * that its node needs cannot be filled any more.
 */
export interface Woken {
  readonly no: number;
  readonly queue: string;
  readonly flow: string;
  readonly execution: number | null;
  readonly to: "due" | "duplicate" | "mismatch" | "dead" | "closed";
  /** For a dead letter: the reason. */
  readonly note: PacketNote | null;
}

/** An execution that has ended: it has no open packets. */
export interface Ended {
  readonly no: number;
  readonly flow: string;
  readonly status: ExecutionStatus;
}

/** Query of {@link PacketBackend.claim}. */
export interface PacketClaimQuery {
  readonly worker: number;
  /** In order of priority. */
  readonly queues: readonly { readonly flow: string; readonly queue: string; readonly limit: number }[];
  readonly limit: number;
}

/** Result of {@link PacketBackend.claim}. */
export interface PacketClaims {
  readonly now: number;
  readonly claimed: readonly PacketRecord[];
  /** Packets that the claim acknowledged, closed or made dead letters. */
  readonly closed: readonly Woken[];
  readonly ended: readonly Ended[];
  /** When the next packet of these queues can be claimed, as far as is known now. */
  readonly nextAt: number | null;
  /** Queried flows that are not active. */
  readonly resting: readonly string[];
  /** False: the store no longer knows this worker. Other workers may have its packets, and it has to join again. */
  readonly known: boolean;
}

/** What an operator changes. Dead letters that belong together are changed in one commit. */
export type PacketChange =
  | { readonly kind: "retry"; readonly letters: readonly { readonly no: number; readonly alert?: Alert }[] }
  | { readonly kind: "discard"; readonly letters: readonly { readonly no: number }[] }
  | { readonly kind: "flow"; readonly flow: string; readonly state: FlowState };

/**
 * An action of an operator. The change and its entry in the operator log are one commit. If the log already has an action with this id, nothing is
 * changed, and the answer is the first one: an action that is sent again after a lost reply finds its own success.
 */
export interface PacketAct {
  readonly log: NewLogEntry;
  readonly change: PacketChange;
}

/** What the store answers to a {@link PacketAct}. */
export type PacketActed =
  /** `repeated`: by an earlier request with the same action id, whose entry in the log this is. */
  | { readonly kind: "acted"; readonly entry: LogEntry; readonly repeated: boolean }
  /** None of the packets is a dead letter. Nothing was changed, and nothing was written to the log. */
  | { readonly kind: "absent" };

/** Query of {@link PacketBackend.deadLetters}: newest first. */
export interface DeadLetterQuery {
  readonly flow?: string;
  readonly name?: string;
  /** Only dead letters older than this. */
  readonly before?: PageCursor;
  readonly limit: number;
}

/** The last item of a page: when it was created (for dead letters: when it became one), and its number. */
export interface PageCursor {
  readonly at: number;
  readonly no: number;
}

/** Query of {@link PacketBackend.executions}: newest first. */
export interface ExecutionQuery {
  readonly flow?: string;
  readonly status?: ExecutionStatus;
  /** "": only executions without a scope. */
  readonly scope?: string;
  /** `text`: see `attributeText`. */
  readonly attribute?: { readonly name: string; readonly text: string };
  readonly before?: PageCursor;
  readonly limit: number;
}

/** The number of packets in a queue, by state. */
export interface QueueCount {
  readonly flow: string;
  readonly queue: string;
  readonly due: number;
  readonly held: number;
  readonly parts: number;
  readonly owned: number;
  readonly dead: number;
}

/** The packets of a store. Throws the same errors as {@link Backend}. */
export interface PacketBackend {
  /**
   * Writes operations in order, each atomic by itself and durable before it is answered. Answers "again" for an operation that
   * lost a race and changed nothing: it is sent again with the next flush.
   */
  flush(operations: readonly PacketOperation[]): Promise<readonly (PacketAnswer | "again")[]>;
  /** Registers a worker and returns its number, which is never reused. Until its lease expires, no other worker can claim its packets. */
  join(query: { readonly leaseMs: number }): Promise<number>;
  /**
   * Extends the lease of the worker and so of all its packets. Returns false if the lease had expired and another worker has
   * removed this one.
   */
  renew(worker: number, leaseMs: number): Promise<boolean>;
  /** Unregisters a worker that stops. Its packets become due, and the attempt does not count. */
  leave(worker: number): Promise<void>;
  /**
   * Claims due packets and begins their keys in the same commit. A packet whose key is completed is acknowledged; a packet whose
   * key has another owner is held. First, packets of workers whose lease has expired become due, and each packet's crash count
   * increases. If nothing is due, the claim only reads.
   *
   * A claim that rejects may still have claimed packets: its reply was lost (`NotKnownError`), or one of its several commits failed
   * after another succeeded (`UnreachableError`). The worker does not know these packets, and its lease keeps other workers from
   * claiming them. So the next claim of the same worker must first release them. After an `UnreachableError` front ends rely on
   * that and claim again under the same number; after any other error they call `leave`, which releases the packets, and join
   * again.
   */
  claim(query: PacketClaimQuery): Promise<PacketClaims>;
  /** Sends as the last statement of an open transaction. No packet may have `claim`. */
  sendWithin?(tx: Tx, send: SendPackets): Promise<PacketAnswer>;
  /**
   * Retries a dead letter: makes it due again, with its key and history; `attempt` continues. Returns false if there is no such
   * dead letter. `alert` is for the next time it becomes a dead letter; it has a new number, because the previous alert may still
   * be queued.
   */
  reinject(no: number, alert?: Alert): Promise<boolean>;
  /** Removes a dead letter. The next packet of a lane that it blocked becomes due. Returns false if there is no such dead letter. */
  discard(no: number): Promise<boolean>;
  /** Retries or discards dead letters, or sets the state of a flow, for an operator: with an entry in the operator log of the store. */
  act(action: PacketAct): Promise<PacketActed>;
  packet(no: number): Promise<PacketRecord | undefined>;
  deadLetters(query: DeadLetterQuery): Promise<readonly PacketRecord[]>;
  execution(no: number): Promise<ExecutionRecord | undefined>;
  executions(query: ExecutionQuery): Promise<readonly ExecutionRecord[]>;
  /** Oldest first. */
  notes(execution: number, limit: number): Promise<readonly ExecutionNote[]>;
  /** The history of deliveries, oldest first. */
  deliveries(query: DeliveryQuery): Promise<readonly DeliveryEntry[]>;
  /** All packets of an execution that are in the store, in any state. */
  packetsOf(execution: number, limit: number): Promise<readonly PacketRecord[]>;
  counts(): Promise<readonly QueueCount[]>;
  /**
   * Optional: prepares the place where the keys of a flow are stored. `collection`: the name that the flow's document asks for. Throws
   * ConfigurationError if the place is not possible, or belongs to another flow.
   */
  prepareKeys?(flow: string, collection?: string): Promise<void>;
  flowState(flow: string): Promise<FlowState>;
  setFlowState(flow: string, state: FlowState): Promise<void>;
  /** Removes expired executions, with their notes and history, and dead letters. Returns how many. */
  purge(limit: number): Promise<number>;
  /**
   * Calls back when another process may have sent or settled packets. It may call too often and may miss changes, so workers also
   * poll. Returns a function that stops it.
   */
  watch(changed: () => void): () => void;
}
