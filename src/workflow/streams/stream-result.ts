import { InvalidInputError } from "../../core/errors/errors.js";
import type { Store } from "../../core/store/store.js";
import { addKind } from "../../core/values/kinds.js";
import { isPlainObject } from "../../core/values/plain-object.js";
import { currentStep } from "../define/context.js";
import type { StreamTarget } from "../define/stream-target.js";
import { readingStore } from "../process/ambient-store.js";
import { readableOf } from "./readable.js";

/** Stored form of a ReadableStream: the name of a stream of a run. */
interface StreamReference {
  readonly run: string;
  readonly stream: string;
}

const references = new WeakMap<ReadableStream, StreamReference>();

/** The store from which values are being decoded: streams in these values are read from it. */
let decodingStore: Store | undefined;

/** Runs a synchronous decode of values that come from `store`. */
export function inStore<T>(store: Store, decoding: () => T): T {
  const before = decodingStore;
  decodingStore = store;
  try {
    return decoding();
  } finally {
    decodingStore = before;
  }
}

function referenceOf({ run, stream }: StreamReference): ReadableStream {
  const store = decodingStore;
  const readable = readableOf({ run, stream, store: () => readingStore(store ?? currentStep()?.execution.store) });
  references.set(readable, { run, stream });
  return readable;
}

/** The body of a step. Streams in its result are named after its call. */
interface DrainInto {
  readonly execution: { readonly id: string };
  readonly id: string;
  readonly writer: StreamTarget;
  readonly signal: AbortSignal;
}

/**
 * Drains the streams in a result into streams of the run and replaces them by references. If the process dies on the way,
 * the next attempt writes the same chunks at the same indexes. Returns a promise only if there are streams: most results
 * have none.
 */
export function drainStreams(value: unknown, to: DrainInto): unknown {
  const streams = streamsIn(value);
  return streams.length === 0 ? value : drainAll(value, streams, to);
}

async function drainAll(value: unknown, streams: readonly ReadableStream[], to: DrainInto): Promise<unknown> {
  const kept = new Map<unknown, ReadableStream>();
  for (const [i, source] of streams.entries()) {
    const stream = `$${to.id}/${i}`;
    await drain(source, stream, to.writer, to.signal);
    kept.set(source, referenceOf({ run: to.execution.id, stream }));
  }
  return replaceStreams(value, kept);
}

async function drain(source: ReadableStream, stream: string, writer: StreamTarget, signal: AbortSignal): Promise<void> {
  const sink = new WritableStream({ write: (chunk) => writer.write(stream, chunk) });
  await source.pipeTo(sink, { signal });
  await writer.end(stream);
}

/** The streams in a value that are not references yet, in order. Each object is visited once, because a value may have cycles. */
function streamsIn(value: unknown): readonly ReadableStream[] {
  if (typeof value !== "object" || value === null) return [];
  const seen = new Set<unknown>();
  const found: ReadableStream[] = [];
  const look = (one: unknown): void => {
    if (typeof one !== "object" || one === null || seen.has(one)) return;
    seen.add(one);
    if (one instanceof ReadableStream) {
      if (!references.has(one)) found.push(one);
    } else if (Array.isArray(one) || isPlainObject(one)) for (const part of Object.values(one)) look(part);
  };
  try {
    look(value);
    return found;
  } catch {
    // A getter threw, or the value is nested too deeply: the codec reports this, with the path.
    return [];
  }
}

/** A copy of the value with references in place of streams. */
function replaceStreams(value: unknown, kept: ReadonlyMap<unknown, ReadableStream>): unknown {
  const copies = new Map<unknown, unknown>(kept);
  const copy = (one: unknown): unknown => {
    if (copies.has(one)) return copies.get(one);
    if (typeof one !== "object" || one === null || !(Array.isArray(one) || isPlainObject(one))) return one;
    const made: Record<string, unknown> | unknown[] = Array.isArray(one) ? [] : {};
    copies.set(one, made);
    for (const [name, part] of Object.entries(one)) Object.defineProperty(made, name, { value: copy(part), ...open });
    return made;
  };
  return copy(value);
}

/** Attributes of a normal property. defineProperty instead of assignment, so that "__proto__" is a property like any other. */
const open = { enumerable: true, configurable: true, writable: true };

addKind<ReadableStream, StreamReference>({
  name: "ReadableStream",
  holds: (value): value is ReadableStream => value instanceof ReadableStream,
  keep(readable) {
    const reference = references.get(readable);
    if (reference !== undefined) return reference;
    throw new InvalidInputError(
      "value",
      "is a ReadableStream that is not stored: return it from a step, which writes its chunks to the run",
    );
  },
  make: referenceOf,
});
