import type { Chunk, Voided } from "../../../core/runs/chunk.js";
import type { LogEntry, NewLogEntry } from "../../../core/runs/log.js";
import type { RunChange, WhatChanged } from "../../../core/runs/operation.js";
import type { EntryFence, RunTable, RunUpdate } from "../../../core/runs/rules/table.js";
import type { HookRecord, JournalEntry, Mail, RunRecord, WorkerRecord } from "../../../core/runs/run.js";
import { MemoryChunks } from "./chunks.js";

/** Queue and journals of a store in memory. Several backends on one of these behave like several processes on one database. */
export interface MemoryRuns {
  readonly runs: Map<string, RunRecord>;
  readonly journals: Map<string, JournalEntry[]>;
  readonly mailboxes: Map<string, Mailbox>;
  readonly hooks: Map<string, HookRecord>;
  readonly chunks: MemoryChunks;
  readonly log: LogEntry[];
  readonly workers: Map<string, Omit<WorkerRecord, "live"> & { readonly leaseUntil: number }>;
  readonly watchers: Set<(run: RunChange, what?: WhatChanged) => void>;
}

export function createMemoryRuns(): MemoryRuns {
  return {
    runs: new Map(),
    journals: new Map(),
    mailboxes: new Map(),
    hooks: new Map(),
    chunks: new MemoryChunks(),
    log: [],
    workers: new Map(),
    watchers: new Set(),
  };
}

interface Mailbox {
  /** The number of each mail, by its key. */
  readonly keys: Map<string, number>;
  readonly mail: Mail[];
}

/** Records are frozen, because callers get these objects, not copies. */
export class MemoryRunTable implements RunTable {
  readonly #memory: MemoryRuns;
  readonly now: () => number;

  constructor(memory: MemoryRuns, now: () => number) {
    this.#memory = memory;
    this.now = now;
  }

  run(id: string): RunRecord | undefined {
    return this.#memory.runs.get(id);
  }

  record(id: string): RunRecord | undefined {
    return this.#memory.runs.get(id);
  }

  insertRun(run: RunRecord): boolean {
    if (this.#memory.runs.has(run.id)) return false;
    this.#memory.runs.set(run.id, Object.freeze(run));
    this.#notify(run.id, "run");
    return true;
  }

  changeRun(id: string, { expiresAt: _, ...to }: RunUpdate): void {
    const before = this.#memory.runs.get(id) as RunRecord;
    const after = Object.freeze({ ...before, ...to });
    this.#memory.runs.set(id, after);
    if (before.mail !== after.mail || (after.owner === null && before.owner !== null)) this.#notify(id, "run");
  }

  lastEntry(run: string): EntryFence | undefined {
    return this.#memory.journals.get(run)?.at(-1);
  }

  entry(run: string, seq: number): JournalEntry | undefined {
    return this.#memory.journals.get(run)?.[seq - 1];
  }

  insertEntry(run: string, entry: JournalEntry): void {
    const journal = this.#memory.journals.get(run) ?? [];
    this.#memory.journals.set(run, journal);
    journal.push(Object.freeze(entry));
  }

  hasMail(run: string, key: string): boolean {
    return this.#memory.mailboxes.get(run)?.keys.has(key) ?? false;
  }

  insertMail(run: string, key: string, mail: Mail): boolean {
    const box: Mailbox = this.#memory.mailboxes.get(run) ?? { keys: new Map(), mail: [] };
    this.#memory.mailboxes.set(run, box);
    if (box.keys.has(key)) return false;
    box.keys.set(key, mail.seq);
    box.mail.push(Object.freeze(mail));
    return true;
  }

  mailSeq(run: string, key: string): number | undefined {
    return this.#memory.mailboxes.get(run)?.keys.get(key);
  }

  withdrawMail(run: string, seq: number, key: string): void {
    const { keys, mail } = this.#memory.mailboxes.get(run) as Mailbox;
    for (const [former, of] of keys) if (of === seq) keys.delete(former);
    keys.set(key, seq);
    const i = mail.findIndex((each) => each.seq === seq);
    mail[i] = Object.freeze({ ...(mail[i] as Mail), kind: "withdrawn", payload: null });
  }

  hook(token: string): HookRecord | undefined {
    return this.#memory.hooks.get(token);
  }

  insertHook(hook: HookRecord): boolean {
    if (this.#memory.hooks.has(hook.token)) return false;
    this.#memory.hooks.set(hook.token, Object.freeze(hook));
    return true;
  }

  removeHook(run: string, token: string): void {
    if (this.#memory.hooks.get(token)?.run === run) this.#memory.hooks.delete(token);
  }

  removeHooks(run: string): void {
    for (const [token, hook] of this.#memory.hooks) if (hook.run === run) this.#memory.hooks.delete(token);
  }

  removeRun(id: string): void {
    this.removeHooks(id);
    for (const rows of [this.#memory.runs, this.#memory.journals, this.#memory.mailboxes, this.#memory.chunks]) rows.delete(id);
    this.#notify(id, "run");
  }

  logged(id: string): LogEntry | undefined {
    return this.#memory.log.find((entry) => entry.id === id);
  }

  insertLog(entry: NewLogEntry): LogEntry {
    const logged = Object.freeze({ ...entry, no: this.#memory.log.length + 1, at: this.now() });
    this.#memory.log.push(logged);
    return logged;
  }

  hasEndedStream(run: string, stream: string): boolean {
    return this.#memory.chunks.ended(run, stream);
  }

  nextIndex(run: string, stream: string): number {
    return this.#memory.chunks.next(run, stream);
  }

  insertChunk(run: string, index: number, chunk: Chunk): boolean {
    return this.#memory.chunks.insert(run, index, chunk);
  }

  chunkAttempt(run: string, chunk: Chunk): number {
    return this.#memory.chunks.attempt(run, chunk);
  }

  replaceChunk(run: string, chunk: Chunk): void {
    this.#memory.chunks.replace(run, chunk);
  }

  voidChunks(run: string, voided: Voided): void {
    this.#memory.chunks.void(run, voided);
  }

  grown(run: string): void {
    this.#notify(run, "chunks");
  }

  #notify(run: string, what: WhatChanged): void {
    for (const watcher of this.#memory.watchers) what === "run" ? watcher(run) : watcher(run, what);
  }
}
