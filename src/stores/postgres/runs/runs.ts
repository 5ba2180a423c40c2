import type { RunBackend } from "../../../core/runs/operation.js";
import { Gate } from "../../../core/work/gate.js";
import { Flusher } from "../connection/flusher.js";
import { openPool, standingAlone } from "../connection/pool.js";
import type { ConnectionConfig } from "../connection/session.js";
import type { PgClient, PgModule } from "../driver.js";
import { explain } from "../errors.js";
import { readChunks, readTail } from "./chunks.js";
import { claimRuns } from "./claim.js";
import { appendWithin } from "./decide.js";
import { flushRuns } from "./flush.js";
import { loadRuns } from "./load.js";
import { channelOf } from "./notify.js";
import { purgeRuns } from "./purge.js";
import { readHook, readJournal, readLog, readMail, readOverdueStops, readRun } from "./read.js";
import { readHeld, readWorkers, readWorkflows, removeWorker, renewRuns } from "./renew.js";
import { countRuns, listHooks, listRuns } from "./search.js";
import { openWatch } from "./watch.js";

export interface RunConnections {
  readonly pg: PgModule;
  readonly schema: string;
  /** For reads, shared with the ledger. */
  readonly pool: PgClient;
  /** Connections with the settings that flushes need. */
  readonly config: ConnectionConfig;
}

/**
 * A page is read in the order of an index and not by a bitmap, which reads all runs that match before it sorts them: the planner expects few if there
 * are many workflows, although one of them may have nearly all runs.
 */
const inOrderOfIndex = { enable_bitmapscan: "off" };

/**
 * Queue and journals of a store, with their own connections, each opened at its first use: one for flushes, whose
 * transactions must not contain statements of the ledger; two for claims and renewals, which must not wait for
 * flushes or for each other; two for searches; one for LISTEN.
 */
export function postgresRuns({ pg, schema, pool, config }: RunConnections): { readonly runs: RunBackend; close(): Promise<void> } {
  const flusher = new Flusher(pg, config);
  const pooled = openPool(pg, config, 2);
  const queue = standingAlone(pooled);
  const searchers = openPool(pg, { ...config, settings: { ...config.settings, ...inOrderOfIndex } }, 2);
  const searching = standingAlone(searchers);
  const watch = openWatch(pg, config, channelOf(schema));
  /** One flush at a time: a statement of a second flush would run inside the first one's transaction. */
  const oneFlush = new Gate(1);
  const asking = <T>(what: string, work: () => Promise<T>): Promise<T> =>
    work().catch((error: unknown) => {
      throw explain(error, what);
    });

  const runs: RunBackend = {
    flush: (operations) => oneFlush.run(() => flusher.run("a flush of runs", (client) => flushRuns(client, schema, operations))),
    claim(query) {
      // A worker that claims will soon write.
      flusher.connect();
      return asking("a claim", () => claimRuns(queue, schema, query));
    },
    load: (id) => asking("a read", async () => (await loadRuns(queue, schema, [{ id }]))[0]),
    renew: (query) => asking("a renewal", () => renewRuns(queue, schema, query)),
    workers: () => asking("a listing", () => readWorkers(pool, schema)),
    held: (owner, limit) => asking("a listing", () => readHeld(pool, schema, owner, limit)),
    workflows: (after, limit) => asking("a listing", () => readWorkflows(pool, schema, after, limit)),
    leave: (owner) => asking("a worker's end", () => removeWorker(queue, schema, owner)),
    mail: (run, after) => asking("a read", () => readMail(pool, schema, run, after)),
    read: (id) => asking("a read", () => readRun(pool, schema, id)),
    journal: (id, after, limit) => asking("a read", () => readJournal(pool, schema, id, after, limit)),
    list: (query) => asking("a listing", () => listRuns(searching, schema, query)),
    count: (filter, max) => asking("a count", () => countRuns(searching, schema, filter, max)),
    hooks: (query) => asking("a listing", () => listHooks(pool, schema, query)),
    hook: (token) => asking("a read", () => readHook(pool, schema, token)),
    overdueStops: (limit) => asking("a listing", () => readOverdueStops(pool, schema, limit)),
    log: (query) => asking("a listing", () => readLog(pool, schema, query)),
    chunks: (query) => asking("a read", () => readChunks(pool, schema, query)),
    tail: (run, stream) => asking("a read", () => readTail(pool, schema, run, stream)),
    purge: (limit) => asking("a purge", () => purgeRuns(queue, schema, limit)),
    watch: (changed) => watch.watch(changed),
    appendWithin: (tx, append) => appendWithin(tx, schema, append),
  };
  return {
    runs,
    async close() {
      await watch.close();
      await flusher.close();
      await searchers.end();
      await pooled.end();
    },
  };
}
