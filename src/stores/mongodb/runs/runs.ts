import type { RunBackend } from "../../../core/runs/operation.js";
import { Gate } from "../../../core/work/gate.js";
import { asking } from "../connection/ask.js";
import type { MongoClient } from "../driver.js";
import type { Collections } from "../layout.js";
import { inTransaction } from "../transactions/in-transaction.js";
import { asSession, clientOf } from "../transactions/transact.js";
import { readChunks, readTail } from "./chunks.js";
import { claimRuns } from "./claim.js";
import { decide, flushRuns } from "./flush.js";
import { loadRun } from "./load.js";
import { readLog } from "./log.js";
import { purgeRuns } from "./purge.js";
import { readHook, readJournal, readMail, readOverdueStops, readRun } from "./read.js";
import { readHeld, readWorkers, readWorkflows, removeWorker, renewRuns } from "./renew.js";
import { countRuns, listHooks, listRuns } from "./search.js";
import { createRunWatch } from "./watch.js";

/** Maximum number of concurrent transactions: each uses one connection of the pool. */
const atOnceMax = 16;

/** Queue and journals, for servers with transactions. */
export function mongoRuns(
  client: MongoClient,
  collections: Collections,
): { readonly runs: RunBackend; readonly close: () => Promise<void> } {
  const gate = new Gate(atOnceMax);
  const watching = createRunWatch(collections);
  const runs: RunBackend = {
    flush: (operations) => flushRuns(client, collections, gate, operations),
    claim: (query) => claimRuns(client, collections, query),
    async load(id) {
      for (;;) {
        const loaded = await inTransaction(client, "a read", (options) => loadRun(collections, id, options));
        if (loaded !== "again") return loaded && { ...loaded, lapsed: true };
      }
    },
    renew: (query) => asking("a renewal", () => renewRuns(collections, query)),
    workers: () => asking("a listing", () => readWorkers(collections)),
    held: (owner, limit) => asking("a listing", () => readHeld(collections, owner, limit)),
    workflows: (after, limit) => asking("a listing", () => readWorkflows(collections, after, limit)),
    leave: (owner) => asking("a worker's end", () => removeWorker(collections, owner)),
    mail: (run, after) => asking("a read", () => readMail(collections, run, after)),
    read: (id) => asking("a read", () => readRun(collections, id)),
    journal: (id, after, limit) => asking("a read", () => readJournal(collections, id, after, limit)),
    list: (query) => asking("a listing", () => listRuns(collections, query)),
    count: (filter, max) => asking("a count", () => countRuns(collections, filter, max)),
    hooks: (query) => asking("a listing", () => listHooks(collections, query)),
    hook: (token) => asking("a read", () => readHook(collections, token)),
    overdueStops: (limit) => asking("a listing", () => readOverdueStops(collections, limit)),
    log: (query) => asking("a listing", () => readLog(collections, query)),
    chunks: (query) => asking("a read", () => readChunks(collections, query)),
    tail: (run, stream) => asking("a read", () => readTail(collections, run, stream)),
    purge: (limit) => purgeRuns(client, collections, limit),
    watch: watching.watch,
    appendWithin(tx, asked) {
      const session = asSession(tx);
      return decide(collections.by(clientOf(session)), asked, { session });
    },
  };
  return { runs, close: watching.close };
}
