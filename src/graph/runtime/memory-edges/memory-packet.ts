import type { Sent } from "../delivery/leaving.js";
import type { Trace } from "../delivery/payload.js";
import type { Mark } from "./memory-mark.js";

/** A packet of an ephemeral edge, in the memory of this process. */
export interface MemoryPacket extends Sent {
  readonly execution: number | null;
  readonly trace: Trace;
  readonly attempt: number;
  readonly no: number;
  /** The errors of failed attempts. */
  readonly history: string | null;
  /** Undefined if its flow stores nothing: then no execution waits for the packet. */
  readonly mark: Mark | undefined;
}
