import { StoreRefusedError } from "../../../core/errors/errors.js";
import type { Columns, Scalar } from "./columns.js";

/**
 * Arrays in PostgreSQL's binary format: the driver sends a Buffer as a binary parameter, so that neither side has to quote or
 * parse anything. That saved a tenth of the time of a flush of fifty runs.
 */
type ElementType = "text" | "int" | "bigint" | "boolean" | "bytea";
type Element = Scalar | Uint8Array;

/** OIDs of the element types. */
const oids: Readonly<Record<ElementType, number>> = { boolean: 16, bytea: 17, bigint: 20, int: 23, text: 25 };

/** Number of dimensions, null flag, element type; then length and lower bound of the one dimension. */
const headerBytes = 20;
const lengthBytes = 4;

/** The rows as one array per column. The columns' types must be those above. */
export function binaryColumns(rows: readonly (readonly Element[])[], columns: Columns): Buffer[] {
  if (rows.length === 0) return [];
  return columns.map(([, type], column) => binaryArray(rows, column, type as ElementType));
}

function binaryArray(rows: readonly (readonly Element[])[], column: number, type: ElementType): Buffer {
  let bytes = headerBytes;
  for (const row of rows) bytes += lengthBytes + bytesOf(row[column] ?? null);
  const array = Buffer.allocUnsafe(bytes);
  for (const [i, word] of [1, 1, oids[type], rows.length, 1].entries()) array.writeInt32BE(word, i * 4);
  let at = headerBytes;
  for (const row of rows) {
    const value = row[column] ?? null;
    // A null has the length -1.
    const length = value === null ? -1 : write(array, value, at + lengthBytes, type);
    array.writeInt32BE(length, at);
    at += lengthBytes + Math.max(length, 0);
  }
  return array.subarray(0, at);
}

/** Maximum number of bytes of the value. */
function bytesOf(value: Element): number {
  if (value === null) return 0;
  if (value instanceof Uint8Array) return value.byteLength;
  return typeof value === "string" ? Buffer.byteLength(value) : 8;
}

/** Writes the value and returns its number of bytes. */
function write(array: Buffer, value: string | number | boolean | Uint8Array, at: number, type: ElementType): number {
  if (value instanceof Uint8Array) {
    array.set(value, at);
    return value.byteLength;
  }
  if (typeof value === "string") return array.write(value, at);
  if (typeof value === "boolean") return array.writeUInt8(value ? 1 : 0, at) - at;
  // In text form PostgreSQL would refuse it; in binary form it would become another number.
  if (!Number.isSafeInteger(value)) throw new StoreRefusedError(`[onceflow] [postgres] ${value} is not a whole number`);
  if (type === "int") return array.writeInt32BE(value, at) - at;
  const high = Math.floor(value / 2 ** 32);
  array.writeInt32BE(high, at);
  return array.writeUInt32BE(value - high * 2 ** 32, at + 4) - at;
}
