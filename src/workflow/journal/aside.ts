import { assert } from "../../core/errors/errors.js";
import type { Chunk } from "../../core/runs/chunk.js";
import type { StartRun } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
import type { Event } from "./event.js";
import { fingerprint } from "./identity.js";

/**
 * A long value does not stand in the journal or in its run's row, which are read and written as a whole again and again,
 * but beside them: as the only chunk of a stream of our own, written in the same commit. In its place there is a
 * reference, `aside:<hash of the value>:<its bytes>`, which no encoded value can begin with.
 */
const prefix = "aside:";

/** By its content: a step's result that is also the run's is kept once. */
const streamOf = (hash: string): string => `$value/${hash}`;

interface PutAside {
  readonly reference: string;
  readonly chunk: Chunk;
}

/** Undefined: it is short enough to stay. */
export function putAside(text: string, asideBytes: number): PutAside | undefined {
  if (asideBytes === 0 || text.length * 3 <= asideBytes) return undefined;
  const bytes = Buffer.byteLength(text);
  if (bytes <= asideBytes) return undefined;
  const hash = fingerprint(text);
  const chunk: Chunk = { stream: streamOf(hash), writer: "run", n: 0, attempt: 1, kind: "value", data: text };
  return { reference: `${prefix}${hash}:${bytes}`, chunk };
}

/** The value that stands there, or that is referred to from there. */
export async function broughtBack<Text extends string | null>(store: Store, run: string, text: Text): Promise<Text | string> {
  if (!isAside(text)) return text;
  const [hash = ""] = text.slice(prefix.length).split(":");
  const [only] = await store.runs.chunks({ run, stream: streamOf(hash), from: 0, limit: 1, bytesMax: 1 });
  assert(typeof only?.data === "string", "a value that was put aside is there as long as its run");
  return only.data;
}

function isAside(text: unknown): text is string {
  return typeof text === "string" && text.startsWith(prefix);
}

/** The value in an event: what a step returned, a hook was given, a child or the run itself ended with. */
function valueIn(event: Event): string | null {
  if (event.type === "done") return event.value;
  if (event.type === "got") return event.payload;
  return event.type === "ended" || event.type === "end" ? event.output : null;
}

function withValue<Of extends Event>(event: Of, value: string): Of {
  if (event.type === "done") return { ...event, value };
  return event.type === "got" ? { ...event, payload: value } : { ...event, output: value };
}

/** Events as they are written, and the values that are put beside them. */
export function withoutLongValues(
  events: readonly Event[],
  asideBytes: number,
): { readonly events: readonly Event[]; readonly aside: Chunk[] } {
  const aside: Chunk[] = [];
  const shortened = (event: Event): Event => {
    const text = valueIn(event);
    const put = text === null ? undefined : putAside(text, asideBytes);
    if (put === undefined) return event;
    aside.push(put.chunk);
    return withValue(event, put.reference);
  };
  return { events: events.map(shortened), aside };
}

/** Events with the values that they refer to. Reads nothing when there are none. */
export async function withLongValues<Of extends Event>(store: Store, run: string, events: readonly Of[]): Promise<Of[]> {
  const whole: Of[] = [];
  for (const event of events) {
    const text = valueIn(event);
    whole.push(isAside(text) ? withValue(event, await broughtBack(store, run, text)) : event);
  }
  return whole;
}

/** A run that is to be created, with a long input beside it. */
export function startedAside(start: StartRun, asideBytes: number): StartRun {
  const put = putAside(start.input, asideBytes);
  return put === undefined ? start : { ...start, input: put.reference, chunks: [put.chunk] };
}

/** The input itself, of a run that was not created yet. */
export function inputOfStart({ input, chunks }: StartRun): string {
  const data = isAside(input) ? chunks?.[0]?.data : input;
  assert(typeof data === "string", "an input that is put aside goes with its run");
  return data;
}
