import type { NewPacket } from "../../../core/packets/operation.js";
import { NodeError } from "../../node/node-error.js";
import { markFor } from "../memory-edges/memory-mark.js";
import { failureOf } from "./failure.js";
import { type Origin, packetsFor, type Sender } from "./outgoing.js";
import { lettersOf } from "./outputs.js";
import { encodeOutput } from "./payload.js";
import type { Leaving } from "./stage.js";

/** What leaves a stage, as the commit that ends the stage has it. */
export interface Packed {
  readonly packets: readonly NewPacket[];
  /** One for each packet that goes on in memory, in order. */
  readonly marks: readonly NewPacket[];
  readonly outputs: readonly string[];
}

const nothing: readonly never[] = [];

/** Throws PERMANENT where it cannot be kept: the node has done its work, and to call it again would not help. */
export function pack(sender: Sender, { stored, ephemeral, outputs, undeclared }: Leaving, origin: Origin): Packed {
  const { execution } = origin;
  try {
    const kept = outputs.length === 0 ? nothing : outputs.map((output) => encodeOutput(output, sender.valueBytesMax));
    const marks = ephemeral.length === 0 || execution === null ? nothing : ephemeral.map((sent) => markFor(sender, sent, execution));
    const letters = undeclared.length === 0 ? nothing : lettersOf(sender, undeclared, origin);
    // Last, because it keeps room for them: what throws before has kept none.
    const packets = stored.length === 0 ? nothing : packetsFor(sender, stored, origin);
    if (letters.length === 0) return { packets, marks, outputs: kept };
    for (const {
      route,
      packets: [letter],
    } of letters)
      sender.told(route, letter.no);
    return { packets: [...packets, ...letters.flatMap((each) => each.packets)], marks, outputs: kept };
  } catch (error) {
    throw new NodeError("PERMANENT", failureOf(error).message, error);
  }
}
