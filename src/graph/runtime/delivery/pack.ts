import type { NewPacket } from "../../../core/packets/operation.js";
import { NodeError } from "../../node/node-error.js";
import { markFor } from "../memory-edges/memory-mark.js";
import { failureOf } from "./failure.js";
import type { Leaving } from "./leaving.js";
import { packetsFor } from "./outgoing.js";
import { encodeOutput } from "./payload.js";
import type { Origin, Sender } from "./sender.js";
import { lettersOf } from "./undeclared.js";

/** What a stage sent, as rows for the commit that ends the stage. */
export interface Packed {
  readonly packets: readonly NewPacket[];
  /** One for each packet that goes on in memory, in order. */
  readonly marks: readonly NewPacket[];
  readonly outputs: readonly string[];
}

const none: readonly never[] = [];

/** Throws PERMANENT if the store cannot hold something: the node would send the same again, and repeat its effect. */
export function pack(sender: Sender, { stored, ephemeral, outputs, undeclared }: Leaving, origin: Origin): Packed {
  const { execution } = origin;
  try {
    const kept = outputs.length === 0 ? none : outputs.map((output) => encodeOutput(output, sender.valueBytesMax));
    const marks = ephemeral.length === 0 || execution === null ? none : ephemeral.map((sent) => markFor(sender, sent, execution));
    const letters = undeclared.length === 0 ? none : lettersOf(sender, undeclared, origin);
    // Last, because it reserves slots: an error above must not leave slots reserved.
    const packets = stored.length === 0 ? none : packetsFor(sender, stored, origin);
    if (letters.length === 0) return { packets, marks, outputs: kept };
    for (const { route, packets: letterAndAlert } of letters) sender.rememberRoute(route, letterAndAlert[0].no);
    return { packets: [...packets, ...letters.flatMap((each) => each.packets)], marks, outputs: kept };
  } catch (error) {
    throw new NodeError("PERMANENT", failureOf(error).message, error);
  }
}
