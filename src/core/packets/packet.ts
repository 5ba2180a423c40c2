import { StoreRefusedError } from "../errors/errors.js";
import type { RecordId } from "../ledger/record.js";

/**
 * Something that waits to be delivered, as the store keeps it. Instants are milliseconds on the store's clock.
 *
 *   send ──▶ due ──claim──▶ (owned) ──settle──▶ gone, its outputs sent in the same commit
 *             ▲               ├──retry──▶ due, later; it keeps its key
 *             │               └──dead──▶ dead ──reinject──▶ due
 *           held   its key is another packet's, or its lane is taken: due, or gone, when that one goes
 *           part   waits for the other ports of its node: gone into the packet that fills the last one
 *           kept   delivered, and kept until its execution ends, to be delivered from again
 *
 * The packet is the owner of its key, and as durable as the key: so the key's lease has no end, and is never renewed.
 */
export interface PacketRecord {
  /** Unique, and given by the sender: the number of its worker, and a count. The same send again finds itself. */
  readonly no: number;
  /** What it belongs to: a flow, an outbox. Dead letters are listed, and deliveries paused, by it. */
  readonly flow: string;
  /** The queue that it waits in: an edge of the flow. */
  readonly queue: string;
  readonly state: PacketState;
  /** The number of the worker that has it. */
  readonly owner: number | null;
  /** Deliveries begun. It never goes back. The fence of a packet is (owner, attempt): a settling names both. */
  readonly attempt: number;
  /**
   * A number of attempts, not an instant: how many of `attempt` do not count. These are the attempts before the packet was
   * last re-injected, and those that were handed back. `attempt - since` have counted.
   */
  readonly since: number;
  /** How many of the attempts that count ended because the lease of their worker lapsed. */
  readonly crashes: number;
  /** When it may be claimed; for a part: when it has waited long enough. */
  readonly dueAt: number;
  readonly execution: number | null;
  readonly key: PacketKey | null;
  /** Packets of one lane of a queue are delivered one after the other, in the order in which they were committed. */
  readonly lane: string | null;
  /** Encoded by the front end, as is `history`; the store does not look inside. */
  readonly payload: string;
  /** What came in at the other ports of its node, by port. Null where it is the only one. */
  readonly parts: Readonly<Record<string, PartRecord>> | null;
  readonly history: string | null;
  /** Why the store itself made a dead letter of it; of an alert: of the packet that it is about. */
  readonly note: PacketNote | null;
  readonly createdAt: number;
  /** Of a dead letter: the name of its queue, since when, and until when it is kept. */
  readonly dead: { readonly name: string; readonly at: number; readonly expiresAt: number | null } | null;
}

export type PacketState = "due" | "held" | "part" | "dead" | "kept";

/**
 * The other ports of its node were not filled in time; or can't be any more, because their branches ended. Or its key was
 * completed with another packet.
 */
export type PacketNote = "joinTimeout" | "joinClosed" | "mismatch";

export interface PartRecord {
  readonly no: number;
  readonly payload: string;
}

export interface PacketKey extends RecordId {
  readonly fingerprint: string | null;
  /** Null: kept for ever. */
  readonly retentionMs: number | null;
  /** What becomes of it where the key is completed with another fingerprint. */
  readonly onMismatch: "acknowledge" | "deadLetter";
}

/** One trigger of a flow, and everything that comes of it. */
export interface ExecutionRecord {
  readonly no: number;
  readonly flow: string;
  /** The node that it began with, and the encoded payload. */
  readonly entry: string;
  readonly input: string;
  /** The key that it was triggered with. */
  readonly key: string | null;
  /** Packets under way: due, held, or with a worker. It has ended when there is none. */
  readonly open: number;
  readonly duplicates: number;
  readonly dead: number;
  readonly createdAt: number;
  readonly endedAt: number | null;
  /** What its nodes sent and no edge took, encoded, in the order of its commits; bounded. */
  readonly outputs: readonly string[];
}

export const executionStatuses = ["running", "completed", "dead"] as const;
export type ExecutionStatus = (typeof executionStatuses)[number];

export function statusOf({ open, dead }: Pick<ExecutionRecord, "open" | "dead">): ExecutionStatus {
  if (open > 0) return "running";
  return dead > 0 ? "dead" : "completed";
}

/** Something out of the ordinary that happened in an execution. */
export interface ExecutionNote {
  readonly at: number;
  readonly kind:
    | "duplicate"
    | "mismatch"
    | "dead"
    | "dropped"
    | "joinTimeout"
    | "joinClosed"
    | "reinjected"
    | "discarded"
    | "skipped"
    | "unrouted"
    | "restarted"
    /** Its node succeeded after the time limit of the last attempt: the packet is a dead letter whose effect has happened. */
    | "lateSuccess";
  readonly queue: string;
  readonly packet: number;
  readonly about: string | null;
}

/** A flow is active unless something else was said. Paused: nothing is claimed. Archived: nothing is sent, either. */
export type FlowState = "active" | "paused" | "archived";

/** The owner of a key that a packet holds, in the ledger. */
export function packetOwner(no: number): string {
  return `packet:${no}`;
}

/** A packet is in the store as long as it holds its key: its lease has no end. The last instant that a Date can tell. */
export const endlessLease = 8_640_000_000_000_000;

/** Packets and executions of one worker: its number, and a count that no other has. */
export const numbersPerWorker = 2 ** 31;

/** Beyond, numbers of packets would be greater than a JavaScript number can tell apart. */
const workersMax = 2 ** 22 - 1;

export function workerNumber(no: number): number {
  if (no <= workersMax) return no;
  throw new StoreRefusedError(
    `[onceflow] ${workersMax} workers have joined this store, and there are no more numbers: go on with a new database`,
  );
}

/** Outputs and notes kept of an execution: the first ones. */
export const outputsMax = 100;
export const notesMax = 1000;
