import { decode, encode, withinBytes } from "../../core/codec.js";
import type { PacketRecord } from "../../core/packet.js";

export type Data = Readonly<Record<string, unknown>>;
export type Trace = Readonly<Record<string, string>>;

export const noTrace: Trace = Object.freeze({});

/** A packet is an object: what is an array in the store is one with its trace headers. */
export function encodePayload(data: Data, trace: Trace, bytesMax: number): string {
  return withinBytes("the packet", encode(trace === noTrace ? data : [data, trace]), bytesMax);
}

export function decodePayload(text: string): { readonly data: Data; readonly trace: Trace } {
  const value = decode(text);
  return Array.isArray(value) ? { data: value[0] as Data, trace: value[1] as Trace } : { data: value as Data, trace: noTrace };
}

/** What has come in, by port. */
export function inputsOf({ parts }: PacketRecord, port: string, own: Data): Readonly<Record<string, Data>> {
  const inputs: Record<string, Data> = {};
  inputs[port] = own;
  if (parts !== null) for (const [name, part] of Object.entries(parts)) inputs[name] = decodePayload(part.payload).data;
  return inputs;
}

/** What a node sent and no edge took. */
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
