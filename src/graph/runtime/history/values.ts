import { encode } from "../../../core/values/codec.js";
import type { Data, FlowOutput } from "../delivery/payload.js";

/** Values of a delivery as its process has them. */
export interface ValuesToRecord {
  /** By input port. */
  readonly input: Readonly<Record<string, Data>>;
  readonly sent: readonly { readonly edge: string; readonly data: Data }[];
  readonly outputs: readonly FlowOutput[];
}

/** A value in the history. */
export interface RecordedValue {
  /** The encoded value: JSON, if the value is plain data. */
  readonly text: string;
  /** The text is only the beginning of the value. */
  readonly cut: boolean;
  /** Bytes of the whole encoded value. */
  readonly bytes: number;
}

/** As stored: the text of a whole value, or the beginning of a value and the bytes of the whole. */
type StoredValue = string | readonly [text: string, bytes: number];

/** As stored with an entry, in one text. */
export interface DeliveryValues {
  readonly input: readonly (readonly [port: string, value: StoredValue])[];
  readonly sent: readonly (readonly [edge: string, value: StoredValue])[];
  readonly outputs: readonly (readonly [node: string, port: string, value: StoredValue])[];
  /** Values that were left out, because there are more than `valuesMax`. */
  readonly more?: number;
  /** The message of the error. */
  readonly message?: string;
}

/** Maximum number of values in one entry. */
const valuesMax = 50;

export function encodeValues({ input, sent, outputs }: ValuesToRecord, bytesMax: number): DeliveryValues {
  const inputs = Object.entries(input).slice(0, valuesMax);
  const sentKept = sent.slice(0, valuesMax - inputs.length);
  const outputsKept = outputs.slice(0, valuesMax - inputs.length - sentKept.length);
  const more = Object.keys(input).length + sent.length + outputs.length - inputs.length - sentKept.length - outputsKept.length;
  return {
    input: inputs.map(([port, data]) => [port, stored(data, bytesMax)]),
    sent: sentKept.map(({ edge, data }) => [edge, stored(data, bytesMax)]),
    outputs: outputsKept.map(({ node, port, data }) => [node, port, stored(data, bytesMax)]),
    ...(more > 0 && { more }),
  };
}

function stored(data: unknown, bytesMax: number): StoredValue {
  const text = encode(data);
  // A UTF-16 unit takes at most three bytes, so most texts need no counting.
  if (text.length * 3 <= bytesMax) return text;
  const bytes = Buffer.from(text);
  // A character that the cut splits becomes a replacement character.
  return bytes.length <= bytesMax ? text : [bytes.subarray(0, bytesMax).toString(), bytes.length];
}

export function recordedValue(value: StoredValue): RecordedValue {
  if (typeof value !== "string") return { text: value[0], cut: true, bytes: value[1] };
  return { text: value, cut: false, bytes: Buffer.byteLength(value) };
}
