import { conflictsOf } from "../../core/hook-conflicts.js";
import { type HookRecord, hasEnded, type JournalEntry, type Mail, type RunRecord } from "../../core/run.js";
import type {
  Append,
  Claimed,
  Entry,
  RunAnswer,
  RunBackend,
  RunChange,
  RunOperation,
  Send,
  StartRun,
  WhatChanged,
  WriteChunks,
} from "../../core/run-operation.js";
import { createMemoryChunks, type MemoryChunks } from "./memory-chunks.js";

/** What a database would hold of queue and journal. Several backends on it are what several processes are. */
export interface MemoryRuns {
  readonly runs: Map<string, RunRecord>;
  readonly journals: Map<string, JournalEntry[]>;
  readonly mailboxes: Map<string, { readonly keys: Set<string>; readonly mail: Mail[] }>;
  readonly hooks: Map<string, HookRecord>;
  readonly chunks: MemoryChunks;
  readonly watchers: Set<(run: RunChange, what?: WhatChanged) => void>;
}

export function createMemoryRuns(): MemoryRuns {
  return {
    runs: new Map(),
    journals: new Map(),
    mailboxes: new Map(),
    hooks: new Map(),
    chunks: createMemoryChunks(),
    watchers: new Set(),
  };
}

/** Every verb is one stretch of work with no await inside: atomic. */
export function memoryRunBackend(memory: MemoryRuns, now: () => number): RunBackend {
  const { runs, journals, hooks } = memory;
  const due = (run: RunRecord) => run.wakeAt !== null && run.wakeAt <= now();
  return {
    flush: async (operations) => operations.map((operation) => apply(memory, operation, now())),
    async claim({ owner, workflows, leaseMs, limit }) {
      const ours = [...runs.values()].filter((run) => workflows.includes(run.workflow) && run.wakeAt !== null && run.owner !== owner);
      const taken = ours.filter(due).sort(byWakeAt).slice(0, limit);
      const claimed = taken.map((run) => {
        save(memory, {
          ...run,
          owner,
          epoch: run.epoch + 1,
          wakeAt: now() + leaseMs,
          status: "running",
          trouble: null,
          startedAt: run.startedAt ?? now(),
        });
        return load(memory, run.id, run.owner !== null) as Claimed;
      });
      const left = ours.filter((run) => !taken.includes(run)).sort(byWakeAt);
      return { now: now(), claimed, nextAt: left[0]?.wakeAt ?? null };
    },
    load: async (id) => load(memory, id, true),
    async renew({ owner, leaseMs }) {
      const held = [...runs.values()].filter((run) => run.owner === owner);
      for (const run of held) save(memory, { ...run, wakeAt: now() + leaseMs });
      return held.map(({ id, epoch, mail }) => ({ id, epoch, mail }));
    },
    mail: async (run, after) => mailAfter(memory, run, after),
    read: async (id) => runs.get(id),
    journal: async (id, after, limit) => (journals.get(id) ?? []).filter(({ seq }) => seq > after).slice(0, limit),
    async list({ workflow, status, after, limit }) {
      const found = [...runs.values()].filter((run) => {
        if (workflow !== undefined && run.workflow !== workflow) return false;
        if (status !== undefined && run.status !== status) return false;
        return after === undefined || newestFirst(after, run) < 0;
      });
      return found.sort(newestFirst).slice(0, limit);
    },
    hook: async (token) => hooks.get(token),
    chunks: async (query) => memory.chunks.read(query),
    tail: async (run, stream) => memory.chunks.tail(run, stream),
    async purge(limit) {
      const at = now();
      let gone = 0;
      // The oldest come first: of a hundred thousand, a batch looks at few.
      for (const { id, endedAt, retentionMs } of runs.values()) {
        if (gone === limit) break;
        if (endedAt === null || retentionMs === null || endedAt + retentionMs > at) continue;
        for (const table of [runs, journals, memory.mailboxes, memory.chunks]) table.delete(id);
        gone += 1;
      }
      return gone;
    },
    watch(changed) {
      memory.watchers.add(changed);
      return () => void memory.watchers.delete(changed);
    },
  };
}

function apply(memory: MemoryRuns, operation: RunOperation, now: number): RunAnswer {
  if (operation.verb === "start") return start(memory, operation, now);
  if (operation.verb === "write") return writeChunks(memory, operation);
  return operation.verb === "append" ? append(memory, operation, now) : send(memory, operation, now);
}

function start(memory: MemoryRuns, operation: StartRun, now: number): RunAnswer {
  const { id, workflow, input, fingerprint, parent, creator, retentionMs, first } = operation;
  const existing = memory.runs.get(id);
  if (existing && existing.creator !== creator) return { kind: "exists", run: existing };
  if (existing) return { kind: "created", now, conflicts: conflictsOf(first?.entry, id, (token) => memory.hooks.get(token)) };
  save(memory, {
    id,
    workflow,
    input,
    fingerprint,
    parent,
    creator,
    retentionMs,
    status: first ? "running" : "pending",
    output: null,
    trouble: null,
    owner: first?.owner ?? null,
    epoch: first ? 1 : 0,
    wakeAt: first ? now + first.leaseMs : now,
    mail: 0,
    consumed: 0,
    createdAt: now,
    startedAt: first ? now : null,
    endedAt: null,
  });
  if (operation.chunks) memory.chunks.write(id, operation.chunks);
  if (first) write(memory, id, { seq: 1, epoch: 1 }, first.entry, now);
  return { kind: "created", now, conflicts: conflictsOf(first?.entry, id, (token) => memory.hooks.get(token)) };
}

function append(memory: MemoryRuns, { id, epoch, seq, entry }: Append, now: number): RunAnswer {
  const run = memory.runs.get(id);
  if (run === undefined) return { kind: "overtaken" };
  const journal = memory.journals.get(id) ?? [];
  const there = journal[seq - 1];
  // What stands there is our own: the reply to it was lost.
  if (entry.events !== null && there?.epoch === epoch)
    return { kind: "appended", now, conflicts: conflictsOf(entry, id, (token) => memory.hooks.get(token)) };
  // Epochs do not go back: what a late owner had queued would else fit just behind its successor's first entry.
  const next = journal.length === seq - 1 && (journal.at(-1)?.epoch ?? 0) <= epoch;
  const mine = entry.events === null ? run.epoch === epoch && run.owner !== null : next;
  if (!mine || hasEnded(run.status)) return { kind: "overtaken" };
  write(memory, id, { seq, epoch }, entry, now);
  return { kind: "appended", now, conflicts: conflictsOf(entry, id, (token) => memory.hooks.get(token)) };
}

function write(memory: MemoryRuns, id: string, at: { seq: number; epoch: number }, entry: Entry, now: number): void {
  if (entry.events !== null) {
    const journal = memory.journals.get(id) ?? [];
    memory.journals.set(id, journal);
    journal.push(Object.freeze({ ...at, at: now, events: entry.events }));
  }
  for (const change of entry.hooks) {
    if ("add" in change) {
      const { add: token, about, metadata } = change;
      if (!memory.hooks.has(token)) memory.hooks.set(token, Object.freeze({ token, run: id, about, metadata, createdAt: now }));
    } else if (memory.hooks.get(change.drop)?.run === id) memory.hooks.delete(change.drop);
  }
  for (const child of entry.children) start(memory, child, now);
  for (const voided of entry.voids ?? []) memory.chunks.void(id, voided);
  if (entry.chunks) memory.chunks.write(id, entry.chunks);
  if (entry.chunks || entry.voids) grown(memory, id);
  const before = memory.runs.get(id) as RunRecord;
  const run = { ...before, consumed: entry.consumed ?? before.consumed };
  const { then } = entry;
  if (then.kind === "hold") save(memory, run);
  if (then.kind === "release") {
    const wakeAt = run.mail > run.consumed ? now : then.wakeAt;
    save(memory, { ...run, owner: null, wakeAt, status: then.status, trouble: then.trouble });
  }
  if (then.kind === "end") {
    save(memory, { ...run, owner: null, wakeAt: null, status: then.status, output: then.output, endedAt: now });
    for (const [token, hook] of memory.hooks) if (hook.run === id) memory.hooks.delete(token);
    if (run.parent !== null) {
      const payload = JSON.stringify([then.status, then.output]);
      send(memory, { verb: "send", to: { run: run.parent }, kind: "child", about: id, payload, key: `child\0${id}` }, now);
    }
  }
}

function writeChunks(memory: MemoryRuns, { id, epoch, chunks }: WriteChunks): RunAnswer {
  const run = memory.runs.get(id);
  if (run === undefined || run.epoch !== epoch || run.owner === null) return { kind: "overtaken" };
  const closed = [...new Set(chunks.map(({ stream }) => stream))].filter((stream) => memory.chunks.ended(id, stream));
  memory.chunks.write(
    id,
    chunks.filter(({ stream }) => !closed.includes(stream)),
  );
  grown(memory, id);
  return { kind: "written", closed };
}

function grown(memory: MemoryRuns, id: string): void {
  for (const watcher of memory.watchers) watcher(id, "chunks");
}

function send(memory: MemoryRuns, { to, kind, about, payload, key }: Send, now: number): RunAnswer {
  const hook = "token" in to ? memory.hooks.get(to.token) : undefined;
  const run = memory.runs.get("token" in to ? (hook?.run ?? "") : to.run);
  if (run === undefined) return { kind: "absent" };
  const box = memory.mailboxes.get(run.id) ?? { keys: new Set(), mail: [] };
  memory.mailboxes.set(run.id, box);
  // Also when the run has ended since: the reply was lost, but the mail had arrived.
  if (box.keys.has(key)) return { kind: "sent", run: run.id, duplicate: true };
  if (hasEnded(run.status)) return { kind: "ended", run: run.id };
  box.keys.add(key);
  const seq = run.mail + 1;
  box.mail.push(Object.freeze({ seq, kind, about: hook?.about ?? about, payload, at: now }));
  save(memory, { ...run, mail: seq, wakeAt: run.owner === null ? Math.min(run.wakeAt ?? now, now) : run.wakeAt });
  return { kind: "sent", run: run.id, duplicate: false };
}

/** Frozen, because the very objects are handed out. Everybody on this memory hears of it. */
function save(memory: MemoryRuns, run: RunRecord): void {
  const before = memory.runs.get(run.id);
  memory.runs.set(run.id, Object.freeze(run));
  const othersCare = before === undefined || before.mail !== run.mail || (run.owner === null && before.owner !== null);
  if (othersCare) for (const watcher of memory.watchers) watcher(run.id);
}

function load(memory: MemoryRuns, id: string, lapsed: boolean): Claimed | undefined {
  const run = memory.runs.get(id);
  if (run === undefined) return undefined;
  const journal = [...(memory.journals.get(id) ?? [])];
  const hooks = [...memory.hooks.values()].filter((hook) => hook.run === id);
  return { run, lapsed, journal, mail: mailAfter(memory, id, run.consumed), hooks };
}

function mailAfter({ mailboxes }: MemoryRuns, run: string, after: number): Mail[] {
  return (mailboxes.get(run)?.mail ?? []).filter(({ seq }) => seq > after);
}

function byWakeAt(a: RunRecord, b: RunRecord): number {
  return (a.wakeAt ?? 0) - (b.wakeAt ?? 0);
}

function newestFirst(a: Pick<RunRecord, "createdAt" | "id">, b: Pick<RunRecord, "createdAt" | "id">): number {
  return b.createdAt - a.createdAt || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
}
