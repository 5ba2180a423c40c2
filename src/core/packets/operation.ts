import type { RecordId } from "../ledger/record.js";
import type { Tx } from "../store/tx.js";
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
 * The verbs of packets that go through group commit. Each is atomic, and is sent again unchanged when its reply was
 * lost: the second time finds what the first one did. One exception: a send that begins no execution leaves no trace when
 * its packets are delivered and gone. Sent again then, they are delivered again; a key acknowledges them.
 */
export interface SendPackets {
  readonly verb: "sendPackets";
  /** The worker whose numbers the packets have; it takes those that say `claim`. */
  readonly worker: number;
  /** The execution that begins with these packets; null: they belong to none, or to one that is there. */
  readonly execution: NewExecution | null;
  readonly packets: readonly NewPacket[];
}

export interface NewExecution {
  readonly no: number;
  readonly flow: string;
  readonly entry: string;
  readonly input: string;
  /** The key of the trigger: completed in this commit, and the execution stands in its note. */
  readonly key: (RecordId & Pick<PacketKey, "fingerprint" | "retentionMs">) | null;
  /** How long it is kept after its end. Null: for ever. */
  readonly retentionMs: number | null;
}

export interface NewPacket {
  readonly no: number;
  readonly flow: string;
  readonly queue: string;
  readonly execution: number | null;
  readonly payload: string;
  readonly key: PacketKey | null;
  readonly lane: NewLane | null;
  readonly join: NewPart | null;
  /** Where it goes when it fails for good. Null: it is dropped. */
  readonly letter: DeadLetter | null;
  readonly delayMs: number;
  /** What is wrong with it, as a history: it goes to the dead letters at once. */
  readonly failed?: string;
  /** The sender has room for it: it is claimed in the commit that sends it, if nothing is in its way. */
  readonly claim: boolean;
}

interface NewLane {
  readonly name: string;
  /** A dead letter keeps its place: what is behind it waits until it is re-injected or discarded. */
  readonly deadBlocks: boolean;
}

/** It fills one port of a node that has several. The packet that fills the last one takes the others with it. */
export interface NewPart {
  /** Names the node, among all of its execution. */
  readonly node: string;
  readonly port: string;
  /** All of them. The key of the joined packet is that of the first port, in this order, whose part has one. */
  readonly ports: readonly string[];
  readonly waitMs: number;
}

export interface DeadLetter {
  readonly name: string;
  readonly retentionMs: number | null;
  /** Sent in the commit in which the store makes the dead letter by itself: its sender may not live to hear of it. */
  readonly alert?: Alert;
}

/** A packet of the same flow, and of no execution. Why the letter was made stands in its note. */
export interface Alert {
  readonly no: number;
  readonly queue: string;
  readonly payload: string;
}

/** How a delivery ended, fenced by (worker, attempt). */
export interface SettlePacket {
  readonly verb: "settlePacket";
  readonly no: number;
  readonly worker: number;
  readonly attempt: number;
  readonly to: PacketOutcome;
  /** Sent in the same commit. */
  readonly packets: readonly NewPacket[];
  /** What no edge took: kept with the execution. */
  readonly outputs: readonly string[];
}

export type PacketOutcome =
  /** Its key is completed, and packets that were held by the key are acknowledged. Restarted: its key is free. */
  | { readonly kind: "done"; readonly keep: boolean; readonly note: "skipped" | "restarted" | "unrouted" | null; readonly about?: string }
  /** It keeps its key. */
  | { readonly kind: "retry"; readonly delayMs: number; readonly history: string | null }
  /** Its key is free, and the oldest packet that was held by it is due. */
  | { readonly kind: "dead"; readonly history: string | null; readonly note?: "lateSuccess" }
  /** Handed back before it was delivered: that was no attempt. Due at once, if no delay is given. */
  | { readonly kind: "release"; readonly delayMs?: number }
  /** It stays with its worker, in this attempt. Only its history is written: a note for the next worker, if this one dies. */
  | { readonly kind: "trial"; readonly history: string };

export type PacketOperation = SendPackets | SettlePacket;

export type PacketAnswer =
  /** One placing for each packet, in order. */
  | { readonly kind: "packetsSent"; readonly now: number; readonly placed: readonly Placed[]; readonly ended: readonly Ended[] }
  | {
      readonly kind: "packetSettled";
      readonly now: number;
      readonly placed: readonly Placed[];
      readonly woken: readonly Woken[];
      /** Executions that ended with it. */
      readonly ended: readonly Ended[];
    }
  /**
   * The flow was triggered before with this key: by `execution`, and with another fingerprint if `mismatch`. This send has
   * triggered nothing, and has written nothing.
   */
  | { readonly kind: "triggered"; readonly execution: number; readonly mismatch: boolean }
  /** The flow is archived; nothing was written. */
  | { readonly kind: "archived" }
  /** The fence (worker, attempt) does not hold: another worker has the packet, or it is gone. Nothing was changed. */
  | { readonly kind: "packetStale" };

export type Placed =
  /** The sender's to deliver. With `parts`, if it filled the last port. */
  | { readonly kind: "claimed"; readonly packet: PacketRecord }
  | { readonly kind: Exclude<PacketState, "dead" | "kept"> }
  /** Its key was completed: acknowledged, and not stored. Only what is claimed in the commit that sends it is asked. */
  | { readonly kind: "duplicate" | "mismatch" }
  /** Its key was completed with another fingerprint, and its edge wants that to be a dead letter. */
  | { readonly kind: "dead" };

/** A packet that waited for another packet, and now is due, acknowledged, dead or closed. */
export interface Woken {
  readonly no: number;
  readonly queue: string;
  readonly flow: string;
  readonly execution: number | null;
  readonly to: "due" | "duplicate" | "mismatch" | "dead" | "closed";
  /** Of a dead letter: why. */
  readonly note: PacketNote | null;
}

/** An execution with nothing under way any more. */
export interface Ended {
  readonly no: number;
  readonly flow: string;
  readonly status: ExecutionStatus;
}

export interface PacketClaimQuery {
  readonly worker: number;
  /** In the order of their priority. */
  readonly queues: readonly { readonly flow: string; readonly queue: string; readonly limit: number }[];
  readonly limit: number;
}

export interface PacketClaims {
  readonly now: number;
  readonly claimed: readonly PacketRecord[];
  /** Acknowledged instead of delivered, closed, or made dead letters while looking. */
  readonly closed: readonly Woken[];
  readonly ended: readonly Ended[];
  /** When the next packet of these queues can be claimed, as far as is known now. */
  readonly nextAt: number | null;
  /** Flows among these that are not active. */
  readonly resting: readonly string[];
  /** False: the store no longer knows this worker, other workers may have its packets, and it has to join again. */
  readonly known: boolean;
}

export interface DeadLetterQuery {
  readonly flow?: string;
  readonly name?: string;
  /** Newest first; those before this one. */
  readonly before?: PageCursor;
  readonly limit: number;
}

/** Where a page of a list ended: when that one was created, or died, and its number. */
export interface PageCursor {
  readonly at: number;
  readonly no: number;
}

export interface ExecutionQuery {
  readonly flow?: string;
  readonly status?: ExecutionStatus;
  readonly before?: PageCursor;
  readonly limit: number;
}

/** How many packets there are, by queue. */
export interface QueueCount {
  readonly flow: string;
  readonly queue: string;
  readonly due: number;
  readonly held: number;
  readonly parts: number;
  readonly owned: number;
  readonly dead: number;
}

/** Packets of a database, beside the ledger. Errors as in `Backend`. */
export interface PacketBackend {
  /**
   * Writes operations one after the other, each atomic by itself and durable before it is answered. "again" for one that
   * lost a race and changed nothing: it is sent again with the next flush.
   */
  flush(operations: readonly PacketOperation[]): Promise<readonly (PacketAnswer | "again")[]>;
  /** A new worker number, never given twice. While its lease lasts, no other worker can claim its packets. */
  join(query: { readonly leaseMs: number }): Promise<number>;
  /** Extends the lease of all packets of the worker: one row. False: the lease had lapsed, and another worker has removed this one. */
  renew(worker: number, leaseMs: number): Promise<boolean>;
  /** The worker stops: the packets that it owns become due, without counting an attempt. */
  leave(worker: number): Promise<void>;
  /**
   * Claims due packets, and begins their keys in the same commit: a packet whose key is completed is acknowledged, a packet
   * whose key has another owner is held. Before that, the packets of workers whose lease has lapsed become due, and a crash
   * is counted for each. If nothing is due, the claim only reads.
   * A claim that rejects may have taken packets all the same: its reply was lost (`NotKnownError`), or it takes several
   * commits, and a later one failed (`UnreachableError`). The worker does not know of these packets, and its lease keeps all
   * other workers from them. So the store's next claim for the same worker first gives them back. After an
   * `UnreachableError` the front ends claim again under the same number, and rely on that; after any other error they leave
   * the number, which frees the packets, and join again.
   */
  claim(query: PacketClaimQuery): Promise<PacketClaims>;
  /** The send as the last statement of an open transaction; none of its packets may say `claim`. */
  sendWithin?(tx: Tx, send: SendPackets): Promise<PacketAnswer>;
  /**
   * Due again, with its key and its history. `attempt` goes on. False: no such dead letter. The alert is for its next
   * death: that of the last one may be on its way, and has its number.
   */
  reinject(no: number, alert?: Alert): Promise<boolean>;
  /** Removes a dead letter. The packets of its lane that it blocked go on. */
  discard(no: number): Promise<boolean>;
  packet(no: number): Promise<PacketRecord | undefined>;
  deadLetters(query: DeadLetterQuery): Promise<readonly PacketRecord[]>;
  execution(no: number): Promise<ExecutionRecord | undefined>;
  executions(query: ExecutionQuery): Promise<readonly ExecutionRecord[]>;
  /** Oldest first. */
  notes(execution: number, limit: number): Promise<readonly ExecutionNote[]>;
  /** What an execution still has in the store: parts, kept and dead ones, and those under way. */
  packetsOf(execution: number, limit: number): Promise<readonly PacketRecord[]>;
  counts(): Promise<readonly QueueCount[]>;
  flowState(flow: string): Promise<FlowState>;
  setFlowState(flow: string, state: FlowState): Promise<void>;
  /** Removes executions and dead letters whose retention is over, letters in that order. Returns how many. */
  purge(limit: number): Promise<number>;
  /** Calls back when another process may have sent or settled something. May call too often, may miss one now and then. */
  watch(changed: () => void): () => void;
}
