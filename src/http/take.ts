/** The bytes that were read and, if there are more than the limit, the unread rest. */
export interface Taken {
  readonly bytes: Uint8Array;
  readonly rest?: AsyncGenerator<Uint8Array>;
}

/** Reads chunks until the limit is exceeded. */
export async function take(from: AsyncIterable<Uint8Array | string>, bytesMax: number): Promise<Taken> {
  const iterator = from[Symbol.asyncIterator]();
  const chunks: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const next = await iterator.next();
    if (next.done) return { bytes: joined(chunks) };
    const chunk = typeof next.value === "string" ? Buffer.from(next.value) : next.value;
    chunks.push(chunk);
    length += chunk.byteLength;
    if (length > bytesMax) return { bytes: joined(chunks), rest: bytesOf(iterator) };
  }
}

async function* bytesOf(iterator: AsyncIterator<Uint8Array | string>): AsyncGenerator<Uint8Array> {
  try {
    for (let next = await iterator.next(); !next.done; next = await iterator.next())
      yield typeof next.value === "string" ? Buffer.from(next.value) : next.value;
  } finally {
    await iterator.return?.();
  }
}

/** All bytes: those that were read, then the rest. */
export async function* whole({ bytes, rest }: Taken): AsyncGenerator<Uint8Array> {
  yield bytes;
  if (rest !== undefined) yield* rest;
}

function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const [only] = chunks;
  return chunks.length === 1 && only ? only : Buffer.concat(chunks);
}
