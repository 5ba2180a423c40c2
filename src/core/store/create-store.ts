import { claimReported, reportRunCommit } from "../events/run-events.js";
import { AttemptLeases } from "../ledger/attempt-leases.js";
import { AuditLog } from "../ledger/audit.js";
import { Cipher, type EncryptionOptions } from "../values/cipher.js";
import { Closing } from "./closing.js";
import { GroupCommit } from "./commit/group-commit.js";
import { commitBy } from "./commit/routing.js";
import { Counters } from "./counters.js";
import { encryptedBackend } from "./encrypted/backend.js";
import { PurgeLoop } from "./purge-loop.js";
import { RecordWaiters } from "./record-waiters.js";
import { RunWatchers } from "./run-watchers.js";
import { type Backend, requirePackets, requireRuns, requireTransactions, type Store } from "./store.js";
import { type StoreOptions, settingsOf } from "./store-options.js";
import { closedError, whileOpen } from "./while-open.js";
import { workerLeases } from "./worker-leases.js";

/**
 * Makes a store from a backend: adds group commit, lease renewal, local wake-ups, metrics, encryption and the background purge. For
 * authors of stores; applications call `open`.
 *
 * @throws InvalidInputError if an option is not valid. With an invalid `encryption` option the backend is closed.
 */
export function createStore(given: Backend, options: StoreOptions = {}): Store {
  const backend = options.encryption === undefined ? given : withEncryption(given, options.encryption);
  const { clock, valueBytesMax, asideBytes, streamChunksMax, audit, purgeEveryMs } = settingsOf(options, backend);

  const counters = new Counters();
  const waiters = new RecordWaiters(clock);
  const watchers = new RunWatchers(backend.runs);
  const log = audit === "all" ? new AuditLog(backend, clock) : undefined;
  const group = new GroupCommit({
    backend,
    clock,
    onAnswers(answered) {
      leases.note(answered);
      log?.note(answered);
      counters.countAnswers(answered);
      waiters.wakeSettled(answered);
    },
    onRunAnswer(operation, answer) {
      counters.countRunAnswer(answer);
      watchers.note(operation, answer);
      reportRunCommit(backend.name, operation, answer);
    },
  });
  const heartbeatThread = backend.standIn?.();
  const leases = new AttemptLeases({ store: backend.name, clock, submit: (renew) => group.submitRecord(renew), heartbeatThread });

  const closed = () => (group.closed ? closedError(backend) : undefined);
  const open = whileOpen(backend, closed);
  const openRuns = backend.runs && whileOpen(backend.runs, closed, { claim: claimReported(backend.name, backend.runs) });
  const openPackets = backend.packets && whileOpen(backend.packets, closed);
  const purge: Store["purge"] = async (query) => {
    const purged = await open.purge(query);
    counters.countPurged(purged);
    return purged;
  };
  const purges = new PurgeLoop(clock, backend.name, {
    keys: (limit) => purge({ limit }),
    runs: (limit) => Promise.resolve(backend.runs?.purge(limit)),
    packets: (limit) => Promise.resolve(backend.packets?.purge(limit)),
  });
  purges.start(purgeEveryMs);
  const closing = new Closing(async () => {
    purges.stop();
    watchers.close();
    await group.close();
    await log?.close();
    await leases.close();
    await backend.close();
  });

  return {
    name: backend.name,
    capabilities: backend.capabilities,
    clock,
    valueBytesMax,
    asideBytes,
    streamChunksMax,
    get metrics() {
      return counters.with(group.flushes);
    },
    commit: commitBy({ backend, group, leases }),
    get runs() {
      return openRuns ?? requireRuns(backend);
    },
    get packets() {
      return openPackets ?? requirePackets(backend);
    },
    onRunChange: (changed) => watchers.add(changed),
    ...workerLeases(heartbeatThread),
    read: (id) => open.read(id),
    attempts: (query) => open.attempts(query),
    list: (query) => open.list(query),
    purge,
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
      if (leases.release(owner)) waiters.wake(id);
    },
    changed: (id, ms, signal) => waiters.wait(id, ms, signal),
    beforeClose: (end) => closing.before(end),
    get closed() {
      return group.closed;
    },
    close: () => closing.close(),
  };
}

function withEncryption(backend: Backend, encryption: EncryptionOptions): Backend {
  try {
    return encryptedBackend(backend, new Cipher(encryption));
  } catch (error) {
    // The caller gets this error in place of a store, so it cannot close the backend itself.
    void backend.close().catch(() => {});
    throw error;
  }
}
