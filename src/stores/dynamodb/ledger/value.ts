import { promisify } from "node:util";
import { brotliCompress, brotliDecompress, constants } from "node:zlib";
import type { AttributeValue } from "@aws-sdk/client-dynamodb";
import { StoreRefusedError } from "../../../core/errors/errors.js";

/** Compressing a smaller value saves nothing: it fits into one billing unit. */
const compressedFrom = 1024;
/** An item may have 400 KiB; the rest of a record, with the longest log of attempts, fits into the difference. */
const packedBytesMax = 360 * 1024;
/** Far above what `valueBytesMax` allows: limits the memory used for decompression. */
const unpackedBytesMax = 256 * 1024 * 1024;

const compress = promisify(brotliCompress);
const decompress = promisify(brotliDecompress);

/** Text as an attribute, compressed if that makes it smaller. Throws StoreRefusedError if it is too large for an item. */
export async function pack(text: string): Promise<AttributeValue> {
  const bytes = Buffer.byteLength(text);
  if (bytes < compressedFrom) return { S: text };
  // Quality 4: a few milliseconds for a megabyte, on another thread.
  const compressed = await compress(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_SIZE_HINT]: bytes } });
  if (Math.min(bytes, compressed.byteLength) > packedBytesMax)
    throw new StoreRefusedError(
      `[onceflow] [dynamodb] a value of ${bytes} bytes (${compressed.byteLength} compressed) does not fit into an item, which has room for ${packedBytesMax}`,
    );
  return compressed.byteLength < bytes ? { B: compressed } : { S: text };
}

export async function unpack(value: AttributeValue | undefined): Promise<string | null> {
  if (value?.B === undefined) return value?.S ?? null;
  return (await decompress(value.B, { maxOutputLength: unpackedBytesMax })).toString("utf8");
}
