import { InvalidInputError } from "../../core/errors/errors.js";
import type { ChunkKind } from "../../core/runs/chunk.js";
import type { Store } from "../../core/store/store.js";
import { encode, withinBytes } from "../../core/values/codec.js";
import { withoutWritable } from "./writable.js";

/** Encodes a chunk: bytes stay bytes, everything else is encoded like any value. Bytes are copied, because the caller may change them. */
export function chunkValue(store: Store, value: unknown): { readonly kind: ChunkKind; readonly data: string | Uint8Array } {
  if (!(value instanceof Uint8Array))
    return { kind: "value", data: withinBytes("chunk", withoutWritable("chunk", encode(value)), store.valueBytesMax) };
  const bytes = value.byteLength;
  if (bytes > store.valueBytesMax)
    throw new InvalidInputError("chunk", `is ${bytes} bytes long, and the maximum is ${store.valueBytesMax}; write it in pieces`);
  return { kind: "bytes", data: new Uint8Array(value) };
}

export function checkCount(store: Store, stream: string, n: number): void {
  if (n < store.streamChunksMax) return;
  throw new InvalidInputError(
    `stream "${stream}"`,
    `has ${store.streamChunksMax} chunks of one writer, which is the maximum; write larger chunks, or raise the store's streamChunksMax`,
  );
}
