import { conflictsOf } from "../../../core/runs/hook-conflicts.js";
import type {
  Append,
  AppendLate,
  Claimed,
  ClaimQuery,
  Entry,
  RunAnswer,
  RunBackend,
  RunChange,
  RunOperation,
  Send,
  StartRun,
  WhatChanged,
  WriteChunks,
} from "../../../core/runs/operation.js";
import {
  type HookRecord,
  hasEnded,
  isSuspect,
  type JournalEntry,
  type Mail,
  type RunRecord,
  type WorkerRecord,
  workerKeptMs,
} from "../../../core/runs/run.js";
import { createMemoryChunks, type MemoryChunks } from "./chunks.js";

/** What a database would hold of queue and journal. Several backends on it are what several processes are. */
export interface MemoryRuns {
  readonly runs: Map<string, RunRecord>;
  readonly journals: Map<string, JournalEntry[]>;
  readonly mailboxes: Map<string, { readonly keys: Set<string>; readonly mail: Mail[] }>;
  readonly hooks: Map<string, HookRecord>;
  readonly chunks: MemoryChunks;
  readonly workers: Map<string, Omit<WorkerRecord, "live"> & { readonly leaseUntil: number }>;
  readonly watchers: Set<(run: RunChange, what?: WhatChanged) => void>;
}

export function createMemoryRuns(): MemoryRuns {
  return {
    runs: new Map(),
    journals: new Map(),
    mailboxes: new Map(),
    hooks: new Map(),
    chunks: createMemoryChunks(),
    workers: new Map(),
    watchers: new Set(),
  };
}

/** Every verb is one stretch of work with no await inside: atomic. */
export function memoryRunBackend(memory: MemoryRuns, now: () => number): RunBackend {
  const { runs, journals, hooks } = memory;
  return {
    flush: async (operations) => operations.map((operation) => apply(memory, operation, now())),
    async claim(query) {
      const { owner, leaseMs, limit } = query;
      const ours = [...runs.values()].filter((run) => isWanted(run, query)).map((run) => ({ run, at: claimableAt(run, owner) }));
      const due = ours.filter(({ at }) => at <= now()).sort(byTime);
      const [suspect] = query.suspects === false ? [] : due.filter(({ run }) => isSuspect(run));
      const taken = due.filter((one) => one === suspect || !isSuspect(one.run)).slice(0, limit);
      const claimed = taken.map(({ run }) => {
        save(memory, { ...run, ...claimedBy(owner, run), wakeAt: now() + leaseMs, startedAt: run.startedAt ?? now() });
        return load(memory, run.id, run.owner !== null) as Claimed;
      });
      const barred = query.suspects === false || (suspect !== undefined && taken.includes(suspect));
      const left = ours.filter((one) => !taken.includes(one) && !(barred && isSuspect(one.run))).sort(byTime);
      return { now: now(), claimed, nextAt: left[0]?.at ?? null };
    },
    load: async (id) => load(memory, id, true),
    async renew({ owner, leaseMs, signOfLife }) {
      if (signOfLife) sawWorker(memory, { id: owner, ...signOfLife }, now(), leaseMs);
      const held = [...runs.values()].filter((run) => run.owner === owner);
      for (const run of held) save(memory, { ...run, wakeAt: now() + leaseMs });
      return held.map(({ id, epoch, mail }) => ({ id, epoch, mail }));
    },
    async workers() {
      const rows = [...memory.workers.values()].filter(({ seenAt }) => seenAt > now() - workerKeptMs);
      const records = rows.map(({ leaseUntil, ...row }): WorkerRecord => ({ ...row, live: leaseUntil > now() }));
      return records.sort((a, b) => Number(b.live) - Number(a.live) || b.seenAt - a.seenAt);
    },
    leave: async (owner) => void memory.workers.delete(owner),
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
      for (const { id, endedAt, retentionMs, unsettled } of runs.values()) {
        if (gone === limit) break;
        if (endedAt === null || retentionMs === null || unsettled > 0 || endedAt + retentionMs > at) continue;
        for (const table of [runs, journals, memory.mailboxes, memory.chunks]) table.delete(id);
        gone += 1;
      }
      for (const { id, seenAt } of memory.workers.values()) if (seenAt <= at - workerKeptMs) memory.workers.delete(id);
      return gone;
    },
    watch(changed) {
      memory.watchers.add(changed);
      return () => void memory.watchers.delete(changed);
    },
  };
}

function sawWorker(
  { workers }: MemoryRuns,
  worker: Pick<WorkerRecord, "id" | "workflows" | "version">,
  now: number,
  leaseMs: number,
): void {
  const startedAt = workers.get(worker.id)?.startedAt ?? now;
  workers.set(worker.id, { ...worker, startedAt, seenAt: now, leaseUntil: now + leaseMs });
}

function isWanted(run: RunRecord, { owner, workflows, run: only }: ClaimQuery): boolean {
  if (run.wakeAt === null || run.owner === owner) return false;
  return only === undefined ? workflows.includes(run.workflow) : run.id === only;
}

/** When this owner may claim it. */
function claimableAt({ wakeAt, avoid, avoidUntil }: RunRecord, owner: string): number {
  return Math.max(wakeAt ?? Number.POSITIVE_INFINITY, avoid.includes(owner) ? (avoidUntil ?? 0) : 0);
}

/** An owner before it fell silent if the run still has one: that death is counted here, before any code of the run executes. */
function claimedBy(owner: string, { owner: before, epoch, deaths, crashes, alone }: RunRecord) {
  const died = before === null ? 0 : 1;
  const trial = { deaths: deaths + died, crashes: crashes + (alone ? died : 0), alone: false };
  return { owner, epoch: epoch + 1, status: "running", trouble: null, ...trial } as const;
}

function apply(memory: MemoryRuns, operation: RunOperation, now: number): RunAnswer {
  if (operation.verb === "start") return start(memory, operation, now);
  if (operation.verb === "write") return writeChunks(memory, operation);
  if (operation.verb === "appendLate") return appendLate(memory, operation, now);
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
    deaths: 0,
    crashes: 0,
    alone: false,
    avoid: [],
    avoidUntil: null,
    unsettled: 0,
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

function appendLate(memory: MemoryRuns, { id, epoch, seq, events, unsettled }: AppendLate, now: number): RunAnswer {
  const run = memory.runs.get(id);
  if (run === undefined || !hasEnded(run.status) || run.epoch !== epoch) return { kind: "overtaken" };
  const journal = memory.journals.get(id) ?? [];
  const appended: RunAnswer = { kind: "appended", now, conflicts: [] };
  if (journal[seq - 1]?.events === events) return appended;
  if (journal.length !== seq - 1) return { kind: "overtaken" };
  memory.journals.set(id, [...journal, Object.freeze({ seq, epoch, at: now, events })]);
  save(memory, { ...run, unsettled });
  return appended;
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
  const run = { ...before, ...entry.trial, consumed: entry.consumed ?? before.consumed };
  const { then } = entry;
  if (then.kind === "hold") save(memory, run);
  if (then.kind === "release") {
    const wakeAt = run.mail > run.consumed ? now : then.wakeAt;
    const avoid = Object.freeze([...(then.avoid?.workers ?? [])]);
    const avoidUntil = avoid.length === 0 ? null : (then.avoid?.until ?? null);
    save(memory, { ...run, owner: null, wakeAt, status: then.status, trouble: then.trouble, avoid, avoidUntil });
  }
  if (then.kind === "end") {
    save(memory, {
      ...run,
      owner: null,
      wakeAt: null,
      status: then.status,
      output: then.output,
      endedAt: now,
      unsettled: then.unsettled ?? 0,
    });
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
  const woken = { wakeAt: Math.min(run.wakeAt ?? now, now), avoid: [], avoidUntil: null };
  save(memory, { ...run, mail: seq, ...(run.owner === null ? woken : {}) });
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

function byTime(a: { readonly at: number }, b: { readonly at: number }): number {
  return a.at - b.at;
}

function newestFirst(a: Pick<RunRecord, "createdAt" | "id">, b: Pick<RunRecord, "createdAt" | "id">): number {
  return b.createdAt - a.createdAt || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
}
