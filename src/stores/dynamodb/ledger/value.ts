import { promisify } from "node:util";
import { brotliCompress, brotliDecompress, constants } from "node:zlib";
import type { AttributeValue } from "@aws-sdk/client-dynamodb";
import { StoreRefusedError } from "../../../core/errors/errors.js";

/** What is smaller fits into the unit that is billed anyway. */
const compressedFrom = 1024;
/** An item may have 400 KiB; the rest of a record, with the longest log of attempts, stays below the difference. */
const packedBytesMax = 360 * 1024;
/** Far beyond what `valueBytesMax` lets in: what is read must not fill the memory. */
const unpackedBytesMax = 256 * 1024 * 1024;

const compress = promisify(brotliCompress);
const decompress = promisify(brotliDecompress);

/** Text as an attribute: as it is, or compressed where that makes it smaller. Throws when even that is too large for an item. */
export async function pack(text: string): Promise<AttributeValue> {
  const bytes = Buffer.byteLength(text);
  if (bytes < compressedFrom) return { S: text };
  // Quality 4: a few milliseconds for a megabyte, on another thread.
  const compressed = await compress(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_SIZE_HINT]: bytes } });
  if (Math.min(bytes, compressed.byteLength) > packedBytesMax)
    throw new StoreRefusedError(
      `[onceflow] [dynamodb] a value of ${bytes} bytes is ${compressed.byteLength} when compressed, and an item has room for ${packedBytesMax}`,
    );
  return compressed.byteLength < bytes ? { B: compressed } : { S: text };
}

export async function unpack(value: AttributeValue | undefined): Promise<string | null> {
  if (value?.B === undefined) return value?.S ?? null;
  return (await decompress(value.B, { maxOutputLength: unpackedBytesMax })).toString("utf8");
}
