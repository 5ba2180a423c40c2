import type { Store } from "../../core/store/store.js";
import { encodeLater, renamed, withinBytes } from "../../core/values/codec.js";
import { withoutWritable } from "../streams/writable.js";

/** A value from outside, encoded as the journal keeps it. `what` names it in the error of one that cannot be kept. */
export async function keptValue(what: string, value: unknown, { valueBytesMax }: Store): Promise<string> {
  try {
    return withinBytes(what, withoutWritable(what, await encodeLater(value, valueBytesMax)), valueBytesMax);
  } catch (error) {
    throw renamed(what, error);
  }
}
