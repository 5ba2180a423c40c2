import { assert } from "../../core/errors/errors.js";
import type { Chunk, Voided } from "../../core/runs/chunk.js";
import type { LogEntry, NewLogEntry } from "../../core/runs/log.js";
import type { EntryFence, RunTable, RunUpdate } from "../../core/runs/rules/table.js";
import type { HookRecord, JournalEntry, Mail, RunRecord } from "../../core/runs/run.js";

/** The rows that an operation may touch, as the database has them. */
export interface LoadedRuns {
  readonly now: number;
  /** The ids that were queried. */
  readonly asked: ReadonlySet<string>;
  readonly runs: readonly RunRecord[];
  /** For each run that gets an entry: its last entry, and an existing entry with the number of the new one. */
  readonly entries: readonly (EntryFence & { readonly run: string; readonly events: string | null })[];
  /** Mail that may be sent and already exists. */
  readonly mail: readonly { readonly run: string; readonly key: string; readonly seq: number }[];
  /** The entry of the operator log with the id of the action, if there is one. */
  readonly logged?: LogEntry | undefined;
  readonly hooks: readonly Pick<HookRecord, "token" | "run" | "about">[];
  readonly streams: readonly LoadedStream[];
  /** Chunks that may be written and already exist. */
  readonly chunks: readonly LoadedChunk[];
}

export interface LoadedStream {
  readonly run: string;
  readonly stream: string;
  readonly next: number;
  readonly ended: boolean;
}

export interface LoadedChunk extends Pick<Chunk, "stream" | "writer" | "n" | "attempt"> {
  readonly run: string;
}

/** A hook with the scope of its run, by which hooks are listed. */
export interface ScopedHook extends HookRecord {
  readonly scope: string;
}

/** What the rules have changed, in the order in which it has to be written. */
export interface RunChanges {
  readonly inserted: readonly RunRecord[];
  readonly changed: readonly { readonly id: string; readonly to: RunUpdate }[];
  readonly entries: readonly (JournalEntry & { readonly run: string })[];
  readonly mail: readonly (Mail & { readonly run: string; readonly key: string })[];
  readonly hooksRemoved: readonly Pick<HookRecord, "run" | "token">[];
  /** Runs that lose all their hooks, including hooks inserted by the same operation. */
  readonly hooksCleared: readonly string[];
  readonly hooksInserted: readonly ScopedHook[];
  readonly voids: readonly (Voided & { readonly run: string })[];
  readonly chunksInserted: readonly { readonly run: string; readonly index: number; readonly chunk: Chunk }[];
  readonly chunksReplaced: readonly { readonly run: string; readonly chunk: Chunk }[];
  readonly grown: ReadonlySet<string>;
  readonly withdrawn: readonly { readonly run: string; readonly seq: number; readonly key: string }[];
  /** Runs that are removed with everything that belongs to them. */
  readonly removed: readonly string[];
  readonly logged: readonly NewLogEntry[];
}

/**
 * The rows that one operation may touch. They are loaded before the rules are applied, and the changes are written afterwards.
 * Reading an id that was not loaded is a bug of the loader; it does not mean that the run does not exist.
 */
export class LoadedRunTable implements RunTable {
  readonly #loaded: LoadedRuns;
  readonly #runs: Map<string, RunRecord>;
  readonly #entries: (EntryFence & { readonly run: string; readonly events: string | null })[];
  /** The number of each mail. */
  readonly #mail: Map<string, number>;
  readonly #hooks: Map<string, Pick<HookRecord, "token" | "run" | "about">>;
  readonly #attempts: Map<string, number>;
  readonly #changed = new Map<string, RunUpdate>();
  readonly #changes = {
    inserted: [] as RunRecord[],
    entries: [] as (JournalEntry & { run: string })[],
    mail: [] as (Mail & { run: string; key: string })[],
    hooksRemoved: [] as Pick<HookRecord, "run" | "token">[],
    hooksCleared: [] as string[],
    hooksInserted: [] as ScopedHook[],
    voids: [] as (Voided & { run: string })[],
    chunksInserted: [] as { run: string; index: number; chunk: Chunk }[],
    chunksReplaced: [] as { run: string; chunk: Chunk }[],
    grown: new Set<string>(),
    withdrawn: [] as { run: string; seq: number; key: string }[],
    removed: [] as string[],
    logged: [] as NewLogEntry[],
  };

  constructor(loaded: LoadedRuns) {
    this.#loaded = loaded;
    this.#runs = new Map(loaded.runs.map((run) => [run.id, run]));
    this.#entries = [...loaded.entries];
    this.#mail = new Map(loaded.mail.map(({ run, key, seq }) => [nameOf(run, key), seq]));
    this.#hooks = new Map(loaded.hooks.map((hook) => [hook.token, hook]));
    this.#attempts = new Map(loaded.chunks.map((chunk) => [chunkName(chunk.run, chunk), chunk.attempt]));
  }

  changes(): RunChanges {
    return { ...this.#changes, changed: [...this.#changed].map(([id, to]) => ({ id, to })) };
  }

  now(): number {
    return this.#loaded.now;
  }

  run(id: string): RunRecord | undefined {
    assert(this.#loaded.asked.has(id), `run ${id} was not loaded`);
    return this.#runs.get(id);
  }

  record(id: string): RunRecord | undefined {
    return this.run(id);
  }

  insertRun(run: RunRecord): boolean {
    if (this.run(run.id) !== undefined) return false;
    this.#runs.set(run.id, run);
    this.#changes.inserted.push(run);
    return true;
  }

  changeRun(id: string, to: RunUpdate): void {
    const { expiresAt: _, ...kept } = to;
    this.#runs.set(id, { ...(this.#runs.get(id) as RunRecord), ...kept });
    this.#changed.set(id, { ...this.#changed.get(id), ...to });
  }

  lastEntry(run: string): EntryFence | undefined {
    return this.#entries
      .filter((entry) => entry.run === run)
      .reduce<EntryFence | undefined>((a, b) => (a && a.seq > b.seq ? a : b), undefined);
  }

  entry(run: string, seq: number): Pick<JournalEntry, "epoch" | "events"> | undefined {
    const found = this.#entries.find((entry) => entry.run === run && entry.seq === seq);
    return found && { epoch: found.epoch, events: found.events ?? "" };
  }

  insertEntry(run: string, entry: JournalEntry): void {
    this.#entries.push({ run, ...entry });
    this.#changes.entries.push({ run, ...entry });
  }

  hasMail(run: string, key: string): boolean {
    return this.#mail.has(nameOf(run, key));
  }

  insertMail(run: string, key: string, mail: Mail): boolean {
    if (this.hasMail(run, key)) return false;
    this.#mail.set(nameOf(run, key), mail.seq);
    this.#changes.mail.push({ run, key, ...mail });
    return true;
  }

  mailSeq(run: string, key: string): number | undefined {
    return this.#mail.get(nameOf(run, key));
  }

  withdrawMail(run: string, seq: number, key: string): void {
    this.#changes.withdrawn.push({ run, seq, key });
  }

  removeRun(id: string): void {
    this.#changes.removed.push(id);
  }

  logged(id: string): LogEntry | undefined {
    const { logged } = this.#loaded;
    return logged?.id === id ? logged : undefined;
  }

  /** The number is assigned when the entry is written: until then it is 0. */
  insertLog(entry: NewLogEntry): LogEntry {
    this.#changes.logged.push(entry);
    return { ...entry, no: 0, at: this.#loaded.now };
  }

  hook(token: string): Pick<HookRecord, "run" | "about"> | undefined {
    return this.#hooks.get(token);
  }

  insertHook(hook: HookRecord): boolean {
    if (this.#hooks.has(hook.token)) return false;
    this.#hooks.set(hook.token, hook);
    this.#changes.hooksInserted.push({ ...hook, scope: this.#runs.get(hook.run)?.scope ?? "" });
    return true;
  }

  removeHook(run: string, token: string): void {
    if (this.#hooks.get(token)?.run !== run) return;
    this.#hooks.delete(token);
    this.#forget((hook) => hook.token === token);
    this.#changes.hooksRemoved.push({ run, token });
  }

  removeHooks(run: string): void {
    for (const { token } of [...this.#hooks.values()].filter((hook) => hook.run === run)) this.#hooks.delete(token);
    this.#forget((hook) => hook.run === run);
    this.#changes.hooksCleared.push(run);
  }

  hasEndedStream(run: string, stream: string): boolean {
    return this.#stream(run, stream)?.ended ?? false;
  }

  nextIndex(run: string, stream: string): number {
    return this.#stream(run, stream)?.next ?? 0;
  }

  insertChunk(run: string, index: number, chunk: Chunk): boolean {
    const name = chunkName(run, chunk);
    if (this.#attempts.has(name)) return false;
    this.#attempts.set(name, chunk.attempt);
    this.#changes.chunksInserted.push({ run, index, chunk });
    return true;
  }

  chunkAttempt(run: string, chunk: Chunk): number {
    return this.#attempts.get(chunkName(run, chunk)) ?? 0;
  }

  replaceChunk(run: string, chunk: Chunk): void {
    const name = chunkName(run, chunk);
    this.#attempts.set(name, chunk.attempt);
    const { chunksInserted, chunksReplaced } = this.#changes;
    const i = chunksInserted.findIndex((one) => chunkName(one.run, one.chunk) === name);
    // Inserted by this same operation: late chunks of an attempt that timed out and chunks of the next attempt may be in one write.
    if (i >= 0) chunksInserted[i] = { ...(chunksInserted[i] as (typeof chunksInserted)[0]), chunk };
    else chunksReplaced.push({ run, chunk });
  }

  voidChunks(run: string, voided: Voided): void {
    for (const { stream, writer, n, run: of } of this.#loaded.chunks) {
      const name = chunkName(of, { stream, writer, n });
      if (of === run && writer === voided.writer && (this.#attempts.get(name) ?? 0) < voided.attempt)
        this.#attempts.set(name, voided.attempt);
    }
    this.#changes.voids.push({ run, ...voided });
  }

  grown(run: string): void {
    this.#changes.grown.add(run);
  }

  #stream(run: string, stream: string): LoadedStream | undefined {
    return this.#loaded.streams.find((one) => one.run === run && one.stream === stream);
  }

  /** A hook that is created and removed by one operation is not written. */
  #forget(gone: (hook: HookRecord) => boolean): void {
    this.#changes.hooksInserted = this.#changes.hooksInserted.filter((hook) => !gone(hook));
  }
}

function nameOf(run: string, key: string): string {
  return JSON.stringify([run, key]);
}

function chunkName(run: string, { stream, writer, n }: Pick<Chunk, "stream" | "writer" | "n">): string {
  return JSON.stringify([run, stream, writer, n]);
}
