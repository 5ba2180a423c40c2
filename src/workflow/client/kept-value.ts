import type { Store } from "../../core/store/store.js";
import { encodeLater, renamed, withinBytes } from "../../core/values/codec.js";
import { withoutWritable } from "../streams/writable.js";

/** Encodes a value of an external caller for the journal. `what` names the value in errors. Throws InvalidInputError. */
export async function encodeForRun(what: string, value: unknown, { valueBytesMax }: Store): Promise<string> {
  try {
    return withinBytes(what, withoutWritable(what, await encodeLater(value, valueBytesMax)), valueBytesMax);
  } catch (error) {
    throw renamed(what, error);
  }
}
