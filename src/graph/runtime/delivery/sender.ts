import type { NewPacket, PacketAnswer, Placed } from "../../../core/packets/operation.js";
import type { Route } from "../flows/route.js";
import type { Payload, Trace } from "./payload.js";

/** What a new packet gets from the worker that sends it. */
export interface Sender {
  readonly valueBytesMax: number;
  readonly onMismatch: "acknowledge" | "deadLetter";
  readonly joinWaitMs: number;
  /** How long dead letters are kept. Null: without end. */
  readonly deadRetentionMs: number | null;
  /** The next number of this worker, for a packet or an execution. */
  readonly next: () => number;
  /**
   * Reserves a slot, so that the commit that sends the packet also claims it for this worker. False: there is no free slot,
   * and any worker claims the packet later.
   */
  readonly reserve: (route: Route, no: number, payload: Payload) => boolean;
  /** Remembers the route of a packet whose queue is none of the flow's own, so that its event can name the route. */
  readonly rememberRoute: (route: Route, no: number) => void;
}

/** The execution and the trace headers that a packet belongs to. */
export interface Origin {
  readonly execution: number | null;
  readonly trace: Trace;
}

/** A commit's answer that says where the packets that it sent are now. */
export type PlacedAnswer = Extract<PacketAnswer, { readonly placed: readonly Placed[] }>;

/** A sender for code that makes its own commits. Each commit ends in one of the two calls. */
export interface CommittingSender extends Sender {
  /** The worker's number in the store. */
  readonly worker: number;
  /** The commit was made: packets that it claimed for this worker are delivered, the slots of the others are released. */
  receiveAnswer(answer: PlacedAnswer, sent: readonly NewPacket[]): void;
  /** The packets were not sent: their slots are released. */
  cancelSend(packets: readonly NewPacket[]): void;
}

/** For a commit that is made in the user's transaction: whether and when it commits is not known here, so it claims nothing. */
export function withoutClaims({ valueBytesMax, onMismatch, joinWaitMs, deadRetentionMs, next, rememberRoute }: Sender): Sender {
  return { valueBytesMax, onMismatch, joinWaitMs, deadRetentionMs, next, rememberRoute, reserve: () => false };
}
