import { InvalidInputError } from "../../core/errors/errors.js";
import type { ChunkKind } from "../../core/runs/chunk.js";
import type { Store } from "../../core/store/store.js";
import { encode, withinBytes } from "../../core/values/codec.js";
import { withoutWritable } from "./writable.js";

/** What is kept of something that was written: bytes as bytes, anything else as every value. A copy: the caller goes on with its own. */
export function chunkValue(store: Store, value: unknown): { readonly kind: ChunkKind; readonly data: string | Uint8Array } {
  if (!(value instanceof Uint8Array))
    return { kind: "value", data: withinBytes("chunk", withoutWritable("chunk", encode(value)), store.valueBytesMax) };
  const bytes = value.byteLength;
  if (bytes > store.valueBytesMax)
    throw new InvalidInputError("chunk", `is ${bytes} bytes long, and ${store.valueBytesMax} are kept; write it in pieces`);
  return { kind: "bytes", data: new Uint8Array(value) };
}

export function checkCount(store: Store, stream: string, n: number): void {
  if (n < store.streamChunksMax) return;
  throw new InvalidInputError(
    `stream "${stream}"`,
    `has ${store.streamChunksMax} chunks of one writer, and no more are kept; write larger ones, or raise the store's streamChunksMax`,
  );
}
