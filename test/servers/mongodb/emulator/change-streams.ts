import { BSON } from "mongodb";
import { type Change, CommandError, type Engine } from "./engine.js";
import type { Language } from "./language.js";
import type { Doc } from "./wire.js";

interface Stream {
  readonly ns: string;
  readonly pipeline: readonly Doc[];
  readonly waiting: Doc[];
  wake(): void;
}

/** Change streams: cursors that return what is committed after they were opened, in order. They cannot be resumed. */
export class ChangeStreams {
  readonly #language: Language;
  readonly #streams = new Map<string, Stream>();
  #opened = 0;
  #events = 0;

  constructor(engine: Engine, language: Language) {
    this.#language = language;
    engine.watchers.add((changes) => {
      for (const change of changes) for (const stream of this.#streams.values()) this.#tell(stream, change);
    });
  }

  open(ns: string, pipeline: readonly Doc[]): Doc {
    this.#opened += 1;
    this.#streams.set(String(this.#opened), { ns, pipeline, waiting: [], wake: () => {} });
    return { cursor: { id: BSON.Long.fromNumber(this.#opened), ns, firstBatch: [], postBatchResumeToken: this.#token() } };
  }

  async more(id: unknown, waitMs: number): Promise<Doc> {
    const stream = this.#streams.get(String(id));
    if (stream === undefined) throw new CommandError(43, "CursorNotFound", `cursor id ${String(id)} not found`);
    if (stream.waiting.length === 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, waitMs);
        stream.wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    const nextBatch = stream.waiting.splice(0);
    return { cursor: { id: BSON.Long.fromString(String(id)), ns: stream.ns, nextBatch, postBatchResumeToken: this.#token() } };
  }

  kill(ids: readonly unknown[]): Doc {
    for (const id of ids) {
      this.#streams.get(String(id))?.wake();
      this.#streams.delete(String(id));
    }
    return { cursorsKilled: ids };
  }

  #token(): Doc {
    return { _data: String(this.#events) };
  }

  #tell(stream: Stream, { ns, doc, was }: Change): void {
    if (ns !== stream.ns) return;
    this.#events += 1;
    const operationType = doc === undefined ? "delete" : was === undefined ? "insert" : "update";
    const [db = "", ...coll] = ns.split(".");
    const event = {
      _id: this.#token(),
      operationType,
      ns: { db, coll: coll.join(".") },
      documentKey: { _id: (doc ?? was)?.["_id"] },
      ...(operationType === "insert" ? { fullDocument: doc } : {}),
      ...(operationType === "update"
        ? { updateDescription: { updatedFields: changed(was ?? {}, doc ?? {}), removedFields: removed(was ?? {}, doc ?? {}) } }
        : {}),
    };
    const told = this.#language.aggregate([event], stream.pipeline);
    if (told.length === 0) return;
    stream.waiting.push(...told);
    stream.wake();
  }
}

function changed(was: Doc, is: Doc): Doc {
  return Object.fromEntries(Object.entries(is).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(was[name])));
}

function removed(was: Doc, is: Doc): string[] {
  return Object.keys(was).filter((name) => !(name in is));
}
