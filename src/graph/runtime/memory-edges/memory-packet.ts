import type { Sent } from "../delivery/leaving.js";
import type { Trace } from "../delivery/payload.js";
import type { Mark } from "./memory-mark.js";

/** A packet of an ephemeral edge, in the memory of this process. */
export interface MemoryPacket extends Sent {
  readonly execution: number | null;
  readonly trace: Trace;
  readonly attempt: number;
  readonly no: number;
  /** Of the attempts that have failed. */
  readonly history: string | null;
  /** Undefined: its flow keeps nothing in the store, and no execution waits for it. */
  readonly mark: Mark | undefined;
}
