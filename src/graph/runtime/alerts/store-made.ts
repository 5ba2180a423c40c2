import type { PacketNote } from "../../../core/packets/packet.js";
import type { Failure } from "../delivery/failure.js";

const reasons = {
  joinTimeout: { code: "INPUT_MISSING", message: "the other ports of its node were not filled in time" },
  joinClosed: { code: "INPUT_MISSING", message: "the other ports of its node will not be filled: their branches have ended" },
  mismatch: { code: "MISMATCH", message: "its key was completed with a different packet" },
} as const;

/** Why the store made a dead letter by itself, for its view, its event and its alert. Null: the row is older than such notes. */
export function storeMade(note: PacketNote | null): Pick<Failure, "code" | "message"> {
  return reasons[note ?? "mismatch"];
}
