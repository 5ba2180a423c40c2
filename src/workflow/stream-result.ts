import { InvalidInputError } from "../core/errors.js";
import { addKind } from "../core/kinds.js";
import { isPlainObject } from "../core/plain-object.js";
import type { Store } from "../core/store.js";
import { currentStep } from "./context.js";
import { readableOf } from "./readable.js";
import { readingStore } from "./workers.js";
import type { StreamTarget } from "./writable.js";

/** A stream of a run, by name: what is kept of a ReadableStream. */
interface StreamReference {
  readonly run: string;
  readonly stream: string;
}

const references = new WeakMap<ReadableStream, StreamReference>();
const depthMax = 20;

/** Where values are decoded for somebody who gave a store: their streams are read there. */
let givenStore: Store | undefined;

export function inStore<T>(store: Store, decoding: () => T): T {
  const before = givenStore;
  givenStore = store;
  try {
    return decoding();
  } finally {
    givenStore = before;
  }
}

function referenceOf({ run, stream }: StreamReference): ReadableStream {
  const store = givenStore;
  const readable = readableOf({ run, stream, store: () => readingStore(store ?? currentStep()?.execution.store) });
  references.set(readable, { run, stream });
  return readable;
}

/**
 * A result with its streams drained into streams of the run, and references in their place. Die on the way, and the next
 * attempt writes them again, in the same places.
 */
export async function drainStreams(
  value: unknown,
  to: { readonly run: string; readonly call: string; readonly writer: () => StreamTarget; readonly signal: () => AbortSignal },
): Promise<unknown> {
  const found = new Map<ReadableStream, ReadableStream>();
  try {
    find(value, found, 0);
  } catch {
    // A getter that throws: whoever encodes the result says so.
    return value;
  }
  if (found.size === 0) return value;
  for (const [i, source] of [...found.keys()].entries()) {
    const stream = `$${to.call}/${i}`;
    await drain(source, stream, to.writer(), to.signal());
    found.set(source, referenceOf({ run: to.run, stream }));
  }
  return replaced(value, found);
}

async function drain(source: ReadableStream, stream: string, writer: StreamTarget, signal: AbortSignal): Promise<void> {
  const sink = new WritableStream({ write: (chunk) => writer.write(stream, chunk) });
  await source.pipeTo(sink, { signal });
  await writer.end(stream);
}

function find(value: unknown, found: Map<ReadableStream, ReadableStream>, depth: number): void {
  if (typeof value !== "object" || value === null || depth > depthMax) return;
  if (value instanceof ReadableStream) {
    if (!references.has(value)) found.set(value, value);
  } else if (Array.isArray(value)) for (const one of value) find(one, found, depth + 1);
  else if (isPlainObject(value)) for (const one of Object.values(value)) find(one, found, depth + 1);
}

function replaced(value: unknown, found: ReadonlyMap<ReadableStream, ReadableStream>): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof ReadableStream) return found.get(value) ?? value;
  if (Array.isArray(value)) return value.map((one) => replaced(one, found));
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, replaced(one, found)]));
}

addKind<ReadableStream, StreamReference>({
  name: "ReadableStream",
  holds: (value): value is ReadableStream => value instanceof ReadableStream,
  keep(readable) {
    const reference = references.get(readable);
    if (reference !== undefined) return reference;
    throw new InvalidInputError(
      "value",
      "is a ReadableStream that nobody has kept: return it from a step, which writes its chunks to the run",
    );
  },
  make: referenceOf,
});
