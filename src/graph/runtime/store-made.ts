import type { PacketNote } from "../../core/packet.js";
import type { Failure } from "./failure.js";

const ofJoins = {
  joinTimeout: { code: "INPUT_MISSING", message: "the other ports of its node were not filled in time" },
  joinClosed: { code: "INPUT_MISSING", message: "the other ports of its node will not be filled: their branches have ended" },
} as const;

const mismatch = { code: "MISMATCH", message: "its key was completed with another packet" };

/** Why the store made a dead letter of a packet by itself: what its view, its event and its alert say. */
export function storeMade(note: PacketNote | null): Pick<Failure, "code" | "message"> {
  return note === null ? mismatch : ofJoins[note];
}
