import { StoreRefusedError } from "../errors/errors.js";
import type { RecordId } from "../ledger/record.js";
import type { Attributes } from "../values/attributes.js";

/**
 * A message of a flow graph or an outbox that waits to be delivered. Instants are milliseconds on the store's clock.
 *
 *   send ──▶ due ──claim──▶ (owned) ──settle──▶ removed; its outputs are sent in the same commit
 *             ▲               ├──retry──▶ due, later; it keeps its key
 *             │               └──dead──▶ dead ──retry by hand (reinject)──▶ due
 *           held   another packet has its key, or is ahead in its lane: due, or removed, when that packet is settled
 *           part   waits for the other ports of its node: becomes part of the packet that fills the last port
 *           kept   delivered; stays until its execution ends, so that it can be delivered again from here
 *
 * A packet owns its key and is as durable as the key, so the key's lease has no end and is not renewed.
 */
export interface PacketRecord {
  /** Unique number, assigned by the sender from the range of its worker. A send that is repeated uses the same number. */
  readonly no: number;
  /** The flow or outbox that the packet belongs to. Dead letters are listed, and deliveries paused, per flow. */
  readonly flow: string;
  /** The queue that the packet waits in: an edge of the flow. */
  readonly queue: string;
  readonly state: PacketState;
  /** Number of the worker that has claimed the packet. */
  readonly owner: number | null;
  /** Number of deliveries begun; never decreases. (owner, attempt) is the fence: a settle names both. */
  readonly attempt: number;
  /**
   * How many of `attempt` do not count towards the attempt limit: attempts before the packet was last retried by hand, and attempts
   * that were released. `attempt - since` count. (A number of attempts, not an instant.)
   */
  readonly since: number;
  /** How many of the counted attempts ended because the lease of their worker expired. */
  readonly crashes: number;
  /** When the packet may be claimed. For a part: when it stops waiting. */
  readonly dueAt: number;
  readonly execution: number | null;
  readonly key: PacketKey | null;
  /** Packets of one lane of a queue are delivered one at a time, in the order in which they were committed. */
  readonly lane: string | null;
  /** Encoded by the front end, like `history`; opaque to the store. */
  readonly payload: string;
  /** What arrived at the other ports of the node, by port. Null if the node has one port. */
  readonly parts: Readonly<Record<string, PartRecord>> | null;
  /** Failed attempts, encoded. */
  readonly history: string | null;
  /** Why the store itself made the packet a dead letter. For an alert: the note of the packet that the alert is about. */
  readonly note: PacketNote | null;
  readonly createdAt: number;
  /** For a dead letter: the name of its dead-letter queue, since when, and until when it is kept. */
  readonly dead: { readonly name: string; readonly at: number; readonly expiresAt: number | null } | null;
}

/** See {@link PacketRecord}. */
export type PacketState = "due" | "held" | "part" | "dead" | "kept";

/**
 * `joinTimeout`: the other ports of the node were not filled in time. `joinClosed`: they cannot be filled any more, because their
 * branches ended. `mismatch`: the key was completed by a packet with a different fingerprint.
 */
export type PacketNote = "joinTimeout" | "joinClosed" | "mismatch";

export interface PartRecord {
  readonly no: number;
  readonly payload: string;
}

/** The idempotency key of a packet. */
export interface PacketKey extends RecordId {
  /** Hash of the payload. Null: not compared. */
  readonly fingerprint: string | null;
  /** Null: kept forever. */
  readonly retentionMs: number | null;
  /** What to do with the packet if its key was completed with a different fingerprint. */
  readonly onMismatch: "acknowledge" | "deadLetter";
}

/** One trigger of a flow with all packets that result from it. */
export interface ExecutionRecord {
  readonly no: number;
  readonly flow: string;
  /** The entry node. */
  readonly entry: string;
  /** The encoded payload of the trigger. */
  readonly input: string;
  /** The key of the trigger. */
  readonly key: string | null;
  /** Number of packets that are due, held or claimed. The execution has ended when it is 0. */
  readonly open: number;
  /** Packets acknowledged as duplicates. */
  readonly duplicates: number;
  /** Dead letters. */
  readonly dead: number;
  readonly createdAt: number;
  readonly endedAt: number | null;
  /** Encoded outputs of nodes that no edge accepts, in the order of commits; the first 100. */
  readonly outputs: readonly string[];
  /** Absent: the execution has none. */
  readonly scope?: string;
  readonly attributes?: Attributes;
}

export const executionStatuses = ["running", "completed", "dead"] as const;
/** `dead`: the execution has ended, and a packet of it is a dead letter. */
export type ExecutionStatus = (typeof executionStatuses)[number];

export function statusOf({ open, dead }: Pick<ExecutionRecord, "open" | "dead">): ExecutionStatus {
  if (open > 0) return "running";
  return dead > 0 ? "dead" : "completed";
}

/** An unusual event in an execution: see `kind`. */
export interface ExecutionNote {
  readonly at: number;
  readonly kind:
    | "duplicate"
    | "mismatch"
    | "dead"
    | "dropped"
    | "joinTimeout"
    | "joinClosed"
    /** A part was removed, because a port that its node needs (`about`) cannot be filled any more. The node is not called. */
    | "joinSkipped"
    /** The node is called without its optional ports `about`: they cannot be filled any more. */
    | "joinReleased"
    | "reinjected"
    | "discarded"
    | "skipped"
    | "unrouted"
    | "restarted"
    /** The lease of the packet's worker expired during the attempt `about`: what the attempt has done is not known. */
    | "crashed"
    /** The node succeeded after the timeout of the last attempt: the packet is a dead letter, but its effect has happened. */
    | "lateSuccess";
  readonly queue: string;
  readonly packet: number;
  /** Details, such as the key. */
  readonly about: string | null;
}

/** `active` is the default. `paused`: no packets are claimed. `archived`: no packets are claimed or sent. */
export type FlowState = "active" | "paused" | "archived";

/** The owner of a packet's key in the ledger. */
export function packetOwner(no: number): string {
  return `packet:${no}`;
}

/** Lease end of a packet's key: the packet stays in the store as long as it owns the key. The last instant that a Date can represent. */
export const endlessLease = 8_640_000_000_000_000;

/** Size of the range of packet and execution numbers that each worker has. */
export const numbersPerWorker = 2 ** 31;

/** Above this, packet numbers would exceed the safe integers of JavaScript. */
const workersMax = 2 ** 22 - 1;

export function workerNumber(no: number): number {
  if (no <= workersMax) return no;
  throw new StoreRefusedError(`[onceflow] all ${workersMax} worker numbers of this store are used; continue with a new database`);
}

/** Maximum number of outputs and notes that are stored per execution. Later ones are dropped. */
export const outputsMax = 100;
export const notesMax = 1000;
