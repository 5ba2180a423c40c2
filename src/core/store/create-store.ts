import { InvalidInputError } from "../errors/errors.js";
import { AuditLog } from "../ledger/audit.js";
import type { AnswerKind, Batch } from "../ledger/operation.js";
import { oneOf } from "../ledger/options.js";
import type { RecordId } from "../ledger/record.js";
import type { Entry, RunAnswer, RunChange, RunOperation, WhatChanged } from "../runs/operation.js";
import { Cipher, type EncryptionOptions } from "../values/cipher.js";
import { type Clock, systemClock } from "../work/clock.js";
import { LeaseKeeper } from "../work/lease-keeper.js";
import { encryptedBackend } from "./encrypted-backend.js";
import { type Answered, GroupCommit, rowOf } from "./group-commit.js";
import { onlyPart } from "./only-part.js";
import { PacketCommit } from "./packet-commit.js";
import { PurgeLoop } from "./purge-loop.js";
import {
  type Backend,
  type HeldRuns,
  type HeldWorker,
  type Metrics,
  requirePackets,
  requireRuns,
  requireTransactions,
  type Store,
} from "./store.js";
import { closedError, whileOpen } from "./while-open.js";

export interface StoreOptions {
  readonly clock?: Clock;
  /** Bytes of an encoded result beyond which it is not kept (the key still completes). Default 4 MiB. */
  readonly valueBytesMax?: number;
  /**
   * Bytes of an encoded value of a run (its input and output, results of steps, payloads of hooks) beyond which it is kept
   * beside the journal. 0: never. Default 256 KiB.
   */
  readonly asideBytes?: number;
  /** Chunks that one writer, the call of a step or a workflow's code, may write to one stream. Default 1,000,000. */
  readonly streamChunksMax?: number;
  /** "all": replays and refusals are logged too, not only counted. Default "attempts". */
  readonly audit?: "attempts" | "all";
  /** How often what is over is removed; 0: never by itself. Default one minute; 0 where the database does it by itself. */
  readonly purgeEveryMs?: number;
  /** Encrypts what is kept: results, errors, inputs, journals. Default: it is stored in the clear. */
  readonly encryption?: EncryptionOptions;
}

/** Makes a store of a backend: group commit, heartbeat, local wake-ups, metrics and the purge that runs by itself. */
export function createStore(given: Backend, options: StoreOptions = {}): Store {
  const backend = options.encryption === undefined ? given : withEncryption(given, options.encryption);
  const {
    clock = systemClock,
    valueBytesMax = 4 * 1024 * 1024,
    asideBytes = 256 * 1024,
    streamChunksMax = 1_000_000,
    audit = "attempts",
  } = options;
  if (!Number.isSafeInteger(streamChunksMax) || streamChunksMax < 1)
    throw new InvalidInputError("streamChunksMax", `must be a whole number from 1 on, not ${String(streamChunksMax)}`);
  const { purgeEveryMs = backend.removesByItself ? 0 : 60_000 } = options;
  oneOf("audit", audit, ["attempts", "all"]);
  if (!Number.isSafeInteger(asideBytes) || asideBytes < 0)
    throw new InvalidInputError("asideBytes", `must be a whole number of bytes, or 0 for never, not ${String(asideBytes)}`);
  const counts: Record<Exclude<keyof Metrics, "flushes">, number> = {
    started: 0,
    takenOver: 0,
    replayed: 0,
    running: 0,
    mismatched: 0,
    unknown: 0,
    gone: 0,
    settled: 0,
    renewed: 0,
    stale: 0,
    runsCreated: 0,
    appended: 0,
    overtaken: 0,
    purged: 0,
  };
  const waiting = new Map<string, Set<() => void>>();
  const log = audit === "all" ? new AuditLog(backend, clock) : undefined;
  const group = new GroupCommit({ backend, clock, onAnswers, onRunAnswer });
  const packets = backend.packets && new PacketCommit(backend, backend.packets, clock);
  const standIn = backend.standIn?.();
  const leases = new LeaseKeeper({ clock, submit: (renew) => group.submit(renew), standIn });
  const watchers = new Set<(run: RunChange, ended: boolean, what: WhatChanged) => void>();
  let stopWatching: (() => void) | undefined;
  const endings = new Set<() => Promise<void>>();
  let closing: Promise<void> | undefined;
  const purges = new PurgeLoop(clock, backend.name, {
    keys: (limit) => store.purge({ limit }),
    runs: (limit) => Promise.resolve(backend.runs?.purge(limit)),
    packets: (limit) => Promise.resolve(backend.packets?.purge(limit)),
  });
  purges.start(purgeEveryMs);

  function onAnswers(answered: readonly Answered[]): void {
    leases.note(answered);
    log?.note(answered);
    for (const { operation, answer } of answered) {
      counts[counterOf[answer.kind]] += 1;
      if (answer.kind === "started" && answer.attempt > 1) counts.takenOver += 1;
      if (answer.kind === "settled") wake(operation);
    }
  }

  function onRunAnswer(operation: RunOperation, answer: RunAnswer): void {
    if (answer.kind === "created") counts.runsCreated += 1;
    if (answer.kind === "appended") counts.appended += 1;
    if (answer.kind === "overtaken") counts.overtaken += 1;
    if (watchers.size === 0) return;
    const changed = changedBy(operation, answer);
    for (const run of changed) runChanged(run, "run", hasEndedBy(operation, run));
    const grown = grownBy(operation, answer);
    if (grown !== undefined && !changed.includes(grown)) runChanged(grown, "chunks");
  }

  function runChanged(run: RunChange, what: WhatChanged = "run", ended = false): void {
    for (const watcher of watchers) watcher(run, ended, what);
  }

  function wake(id: RecordId): void {
    const row = rowOf(id);
    const wakers = waiting.get(row);
    waiting.delete(row);
    for (const waker of wakers ?? []) waker();
  }

  function hold(lease: HeldRuns | HeldWorker): ReturnType<Store["holdRuns"]> {
    standIn?.hold([lease]);
    return { alive: () => standIn?.alive(), release: () => standIn?.drop([lease.owner]) };
  }

  async function close(): Promise<void> {
    // At once when nobody works on it: what comes after this call is refused.
    if (endings.size > 0) await Promise.all([...endings].map((end) => end()));
    purges.stop();
    stopWatching?.();
    await Promise.all([group.close(), packets?.close()]);
    await log?.close();
    await leases.close();
    await backend.close();
  }

  const closed = () => (group.closed ? closedError(backend) : undefined);
  const open = whileOpen(backend, closed);
  const openRuns = backend.runs && whileOpen(backend.runs, closed);
  const openPackets = backend.packets && whileOpen(backend.packets, closed);
  const store: Store = {
    name: backend.name,
    capabilities: backend.capabilities,
    clock,
    valueBytesMax,
    asideBytes,
    streamChunksMax,
    get metrics() {
      return { ...counts, flushes: group.flushes + (packets?.flushes ?? 0) };
    },
    commit: ((given: Batch) => {
      const batch = onlyPart(given);
      if (batch instanceof InvalidInputError) return Promise.reject(batch);
      if ("run" in batch) {
        requireRuns(backend);
        return group.submitRun(batch.run);
      }
      if ("packet" in batch) {
        requirePackets(backend);
        return packets?.submit(batch.packet);
      }
      if (batch.ledger.verb === "begin") leases.catchUp();
      return group.submit(batch.ledger);
    }) as Store["commit"],
    get runs() {
      return openRuns ?? requireRuns(backend);
    },
    get packets() {
      return openPackets ?? requirePackets(backend);
    },
    onRunChange(changed) {
      watchers.add(changed);
      stopWatching ??= backend.runs?.watch(runChanged);
      return () => {
        watchers.delete(changed);
        if (watchers.size > 0) return;
        stopWatching?.();
        stopWatching = undefined;
      };
    },
    holdRuns: (query) => hold({ ...query, runs: true }),
    holdWorker: (worker, leaseMs) => hold({ owner: `packets of ${worker}`, worker, leaseMs }),
    read: (id) => open.read(id),
    attempts: (query) => open.attempts(query),
    list: (query) => open.list(query),
    async purge(query) {
      const purged = await open.purge(query);
      counts.purged += purged;
      return purged;
    },
    audited: (id, limit) => open.audited(id, limit),
    async transact(work) {
      requireTransactions(backend);
      return await (open.transact as NonNullable<Backend["transact"]>)(work);
    },
    async settleWithin(tx, settle) {
      requireTransactions(backend);
      return await (open.settleWithin as NonNullable<Backend["settleWithin"]>)(tx, settle);
    },
    onLost: (owner, lost) => leases.onLost(owner, lost),
    release(owner, id) {
      if (leases.release(owner)) wake(id);
    },
    changed(id, ms, signal) {
      return new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason);
        const row = rowOf(id);
        const wakers = waiting.get(row) ?? new Set();
        waiting.set(row, wakers);
        const end = (then: () => void) => {
          cancel();
          wakers.delete(onChange);
          if (wakers.size === 0 && waiting.get(row) === wakers) waiting.delete(row);
          signal?.removeEventListener("abort", onAbort);
          then();
        };
        const onChange = () => end(resolve);
        const onAbort = () => end(() => reject(signal?.reason));
        const cancel = clock.after(ms, onChange);
        wakers.add(onChange);
        signal?.addEventListener("abort", onAbort, { once: true });
      });
    },
    beforeClose(end) {
      endings.add(end);
      return () => void endings.delete(end);
    },
    get closed() {
      return group.closed;
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
  return store;
}

function withEncryption(backend: Backend, encryption: EncryptionOptions): Backend {
  try {
    return encryptedBackend(backend, new Cipher(encryption));
  } catch (error) {
    // It is open already, and nobody else could close it.
    void backend.close().catch(() => {});
    throw error;
  }
}

/** The runs that somebody may care about now. What an owner appends and goes on with is nobody else's business. */
function changedBy(operation: RunOperation, answer: RunAnswer): string[] {
  if (answer.kind === "sent") return [answer.run];
  if (answer.kind === "created" && operation.verb === "start" && operation.first === null) return [operation.id];
  if (operation.verb === "send" || operation.verb === "write") return [];
  const entry = entryOf(operation);
  if (entry === undefined || !(answer.kind === "appended" || answer.kind === "created")) return [];
  const children = entry.children.map(({ id }) => id);
  return entry.then.kind === "hold" ? children : [operation.id, ...children];
}

function hasEndedBy(operation: RunOperation, run: string): boolean {
  return operation.verb !== "send" && operation.id === run && entryOf(operation)?.then.kind === "end";
}

/** The run of which a stream has grown, or whose readers may see something else than before. */
function grownBy(operation: RunOperation, answer: RunAnswer): string | undefined {
  if (operation.verb === "write") return answer.kind === "written" ? operation.id : undefined;
  const chunks = answer.kind === "appended" || answer.kind === "created" ? entryOf(operation)?.chunks : undefined;
  return chunks === undefined || operation.verb === "send" ? undefined : operation.id;
}

function entryOf(operation: RunOperation): Entry | undefined {
  if (operation.verb === "append") return operation.entry;
  return operation.verb === "start" ? operation.first?.entry : undefined;
}

const counterOf: Record<AnswerKind, Exclude<keyof Metrics, "flushes">> = {
  started: "started",
  replay: "replayed",
  running: "running",
  mismatch: "mismatched",
  unknown: "unknown",
  gone: "gone",
  settled: "settled",
  renewed: "renewed",
  stale: "stale",
};
