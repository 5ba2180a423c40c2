import { InvalidInputError } from "../../core/errors/errors.js";
import type { Store } from "../../core/store/store.js";
import { addKind } from "../../core/values/kinds.js";
import { isPlainObject } from "../../core/values/plain-object.js";
import { currentStep } from "../define/context.js";
import type { StreamTarget } from "../define/stream-target.js";
import { readingStore } from "../process/ambient-store.js";
import { readableOf } from "./readable.js";

/** A stream of a run, by name: what is kept of a ReadableStream. */
interface StreamReference {
  readonly run: string;
  readonly stream: string;
}

const references = new WeakMap<ReadableStream, StreamReference>();

/** The store of a caller that decodes values of it: streams in them are read there. */
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

/** The body of a step: its streams are named by its call. */
interface DrainInto {
  readonly execution: { readonly id: string };
  readonly id: string;
  readonly writer: StreamTarget;
  readonly signal: AbortSignal;
}

/**
 * A result with its streams drained into streams of the run, and references in their place. Die on the way, and the next
 * attempt writes them again, in the same places. A promise only where there are streams: most results have none.
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
  return replaced(value, kept);
}

async function drain(source: ReadableStream, stream: string, writer: StreamTarget, signal: AbortSignal): Promise<void> {
  const sink = new WritableStream({ write: (chunk) => writer.write(stream, chunk) });
  await source.pipeTo(sink, { signal });
  await writer.end(stream);
}

/** The streams in a value that are not kept yet, in order. Each object is looked at once: a value may have cycles. */
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
    // A getter that throws, or a value too deep to walk: the codec says what is wrong with it, and where.
    return [];
  }
}

/** A copy with references in the place of streams. */
function replaced(value: unknown, kept: ReadonlyMap<unknown, ReadableStream>): unknown {
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

/** As by assignment, but for "__proto__", which is then a member as any other. */
const open = { enumerable: true, configurable: true, writable: true };

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
