import { assert } from "../../core/errors/errors.js";
import type { Chunk } from "../../core/runs/chunk.js";
import type { StartRun } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
import type { Event } from "./event.js";
import { fingerprint } from "./identity.js";

/**
 * Long values are not stored in the journal or in the row of a run, which are read and written as a whole again and again.
 * They are stored aside: as the only chunk of an internal stream, written in the same commit. The journal has a reference
 * instead, `aside:<hash of the value>:<its bytes>`; no encoded value begins with this prefix.
 */
const prefix = "aside:";

/** The name is a hash of the content: a result of a step that is also the result of the run is stored once. */
const streamOf = (hash: string): string => `$value/${hash}`;

interface PutAside {
  readonly reference: string;
  readonly chunk: Chunk;
}

/** Undefined if the value is short enough to stay in the journal. */
export function putAside(text: string, asideBytes: number): PutAside | undefined {
  if (asideBytes === 0 || text.length * 3 <= asideBytes) return undefined;
  const bytes = Buffer.byteLength(text);
  if (bytes <= asideBytes) return undefined;
  const hash = fingerprint(text);
  const chunk: Chunk = { stream: streamOf(hash), writer: "run", n: 0, attempt: 1, kind: "value", data: text };
  return { reference: `${prefix}${hash}:${bytes}`, chunk };
}

/** Resolves a reference to the value that was stored aside; any other text is returned as it is. */
export async function loadAside<Text extends string | null>(store: Store, run: string, text: Text): Promise<Text | string> {
  if (!isAside(text)) return text;
  const [hash = ""] = text.slice(prefix.length).split(":");
  const [only] = await store.runs.chunks({ run, stream: streamOf(hash), from: 0, limit: 1, bytesMax: 1 });
  assert(typeof only?.data === "string", "a value that was stored aside exists as long as its run");
  return only.data;
}

export function isAside(text: unknown): text is string {
  return typeof text === "string" && text.startsWith(prefix);
}

/** The value in an event: the result of a step, the payload of a hook, the output of a child or of the run. */
function valueIn(event: Event): string | null {
  if (event.type === "done") return event.value;
  if (event.type === "got") return event.payload;
  return event.type === "ended" || event.type === "end" ? event.output : null;
}

function withValue<Of extends Event>(event: Of, value: string): Of {
  if (event.type === "done") return { ...event, value };
  return event.type === "got" ? { ...event, payload: value } : { ...event, output: value };
}

/** Replaces long values in events by references, and returns the chunks to store aside. */
export function withoutLongValues(
  events: readonly Event[],
  asideBytes: number,
): { readonly events: readonly Event[]; readonly aside: Chunk[] } {
  const aside: Chunk[] = [];
  let shortened: Event[] | undefined;
  let i = -1;
  for (const event of events) {
    i += 1;
    const text = valueIn(event);
    const put = text === null ? undefined : putAside(text, asideBytes);
    if (put === undefined) continue;
    aside.push(put.chunk);
    shortened ??= [...events];
    shortened[i] = withValue(event, put.reference);
  }
  return { events: shortened ?? events, aside };
}

/** Replaces references in events by their values. Reads the store only if there are references. */
export async function withLongValues<Of extends Event>(store: Store, run: string, events: readonly Of[]): Promise<Of[]> {
  const whole: Of[] = [];
  for (const event of events) {
    const text = valueIn(event);
    whole.push(isAside(text) ? withValue(event, await loadAside(store, run, text)) : event);
  }
  return whole;
}

/** The start of a run, with a long input stored aside. */
export function withInputAside(start: StartRun, asideBytes: number): StartRun {
  const put = putAside(start.input, asideBytes);
  return put === undefined ? start : { ...start, input: put.reference, chunks: [put.chunk] };
}

/** The input of a run that is not in the store yet. */
export function inputOfStart({ input, chunks }: StartRun): string {
  const data = isAside(input) ? chunks?.[0]?.data : input;
  assert(typeof data === "string", "an input that is stored aside is sent with its run");
  return data;
}
