/**
 * The history of an execution: one entry for each delivery that has ended, written in the commit that ends it. A delivery whose process
 * dies before that commit has no entry; the execution has a note `crashed` for it. (packet, attempt) is unique in an execution.
 */
export interface DeliveryEntry {
  readonly execution: number;
  readonly packet: number;
  /** The queue that the packet was delivered from. */
  readonly queue: string;
  /** The node that it was delivered to. */
  readonly node: string;
  readonly attempt: number;
  readonly verdict: DeliveryVerdict;
  /** When the delivery ended: the time of the commit (store clock, ms). */
  readonly at: number;
  /** When the attempt began (ms since 1970, clock of its process), and how long it took. */
  readonly startedAt: number;
  readonly ms: number;
  /** Code of the error; null: the node returned. */
  readonly code: string | null;
  /** Packets of the execution that the delivery sent, in their order. */
  readonly sent: readonly number[];
  /** The other packets that a node with several ports got together with this one. */
  readonly joined: readonly number[];
  /** Values and the message of the error, encoded by the front end. Null: not recorded. */
  readonly details: string | null;
}

/**
 * - completed: the node returned
 * - duplicate: the node was not called, because the key was completed. Only for packets in memory: for others the execution has a note
 * - retry: the node failed, and the packet is delivered again
 * - dead, dropped: it failed for good, and the packet is a dead letter, or was removed because its edge has none
 * - skipped, restarted: the recovery of the edge ended the packet without a call of the node
 * - full: the history has no room for this delivery and those that follow
 */
export type DeliveryVerdict = "completed" | "duplicate" | "retry" | "dead" | "dropped" | "skipped" | "restarted" | "full";

/** What a worker adds to the settle of a delivery whose history is kept. */
export interface NewDeliveryEntry extends Pick<DeliveryEntry, "node" | "startedAt" | "ms" | "code" | "joined" | "details"> {
  /** Maximum number of entries of the execution. The entry after the last one says that the history is full. */
  readonly entriesMax: number;
  /** For a packet in the memory of its process, which the store knows only by a mark: what the mark does not say. */
  readonly memory?: Pick<DeliveryEntry, "queue" | "attempt"> & { readonly verdict: DeliveryVerdict };
}

/** An entry to be written. */
export interface EntryToWrite extends DeliveryEntry {
  readonly entriesMax: number;
}

/** Query of {@link PacketBackend.deliveries}: oldest first, by (at, packet, attempt). */
export interface DeliveryQuery {
  /** Only entries of this execution. */
  readonly execution?: number;
  /** Only entries of these packets. */
  readonly packets?: readonly number[];
  /** Only entries after this one. */
  readonly after?: Pick<DeliveryEntry, "at" | "packet" | "attempt">;
  readonly limit: number;
}

/** Replaces the entry for which the history has no room. */
export function fullEntry(entry: EntryToWrite): EntryToWrite {
  return { ...entry, verdict: "full", code: null, sent: [], joined: [], details: null };
}
