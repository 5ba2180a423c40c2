import type { PacketRecord } from "../../../core/packets/packet.js";
import { decode, encode, encodeCopy, withinBytes } from "../../../core/values/codec.js";

export type Data = Readonly<Record<string, unknown>>;
export type Trace = Readonly<Record<string, string>>;

export const noTrace: Trace = Object.freeze({});

/** The content of a packet. */
export interface Payload {
  readonly data: Data;
  readonly trace: Trace;
}

/** Data is always an object, so an array in the store means [data, trace headers]. */
export function encodePayload(data: Data, trace: Trace, bytesMax: number): { readonly text: string; readonly payload: Payload } {
  const { text, copy } = encodeCopy(trace === noTrace ? data : [data, trace]);
  return { text: withinBytes("the packet", text, bytesMax), payload: payloadIn(copy) };
}

export function decodePayload(text: string): Payload {
  return payloadIn(decode(text));
}

function payloadIn(value: unknown): Payload {
  return Array.isArray(value) ? { data: value[0] as Data, trace: value[1] as Trace } : { data: value as Data, trace: noTrace };
}

/** The data of a packet and of its join parts, by port. */
export function inputsOf({ parts }: PacketRecord, port: string, own: Data): Readonly<Record<string, Data>> {
  const inputs: Record<string, Data> = {};
  inputs[port] = own;
  if (parts !== null) for (const [name, part] of Object.entries(parts)) inputs[name] = decodePayload(part.payload).data;
  return inputs;
}

/** A packet that a node sent to a port without an edge. */
export interface FlowOutput {
  readonly node: string;
  readonly port: string;
  readonly data: Data;
}

export function encodeOutput(output: FlowOutput, bytesMax: number): string {
  return withinBytes("the output", encode(output), bytesMax);
}

export function decodeOutput(text: string): FlowOutput {
  return decode(text) as FlowOutput;
}
