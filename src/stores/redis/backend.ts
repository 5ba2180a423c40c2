import { InvalidInputError } from "../../core/errors/errors.js";
import type { Backend, HeartbeatThread } from "../../core/store/store.js";
import { checkServers } from "./connection/check.js";
import type { Connection } from "./connection/connection.js";
import { type WaitReplicas, withReplicas } from "./connection/replicas.js";
import { defaultPrefix, Layout } from "./layout.js";
import { AbandonedRecords } from "./ledger/abandoned.js";
import { appendAudit, readAudit } from "./ledger/audit.js";
import { flush } from "./ledger/flush.js";
import { listRecords } from "./ledger/list.js";
import { purgeRecords } from "./ledger/purge.js";
import { readAttempts, readRecords } from "./ledger/read.js";

export interface RedisBackendOptions {
  /** Prefix of all keys of the store. Default `onceflow`. */
  readonly prefix?: string;
  /** True: throw ConfigurationError, in place of a warning, for a server that can lose or evict acknowledged writes. Default false. */
  readonly strict?: boolean;
  /**
   * Wait until this many replicas have each write; if they do not in time, the write fails with NotKnownError and is sent again.
   * Default: do not wait.
   */
  readonly waitReplicas?: WaitReplicas;
}

interface Internals {
  readonly check: boolean;
  readonly standIn?: () => HeartbeatThread;
}

export async function redisBackend(connection: Connection, options: RedisBackendOptions & Internals): Promise<Backend> {
  const { prefix = defaultPrefix, strict = false, waitReplicas, check, standIn } = options;
  const layout = new Layout(prefix);
  if (waitReplicas !== undefined) checkWait(waitReplicas);
  try {
    if (check) await checkServers(connection, layout, { strict, waitsFor: waitReplicas?.count ?? 0 });
  } catch (error) {
    await connection.close();
    throw error;
  }
  const abandoned = new AbandonedRecords(connection, layout);
  return {
    name: "redis",
    capabilities: { transactions: false, sharedClock: true, durable: true, runs: false, packets: false },
    // A member of a Cluster that does not answer delays only the flushes that need it.
    flushesAtOnce: 3,
    flush: async (operations) => {
      const link = await connection.link();
      const write = () => flush(connection, link, layout, operations);
      return await (waitReplicas === undefined ? write() : withReplicas(connection, link, waitReplicas, write));
    },
    read: async (id) => (await readRecords(connection, layout, [id]))[0],
    attempts: (query) => readAttempts(connection, layout, query),
    list: (query) => listRecords(connection, layout, query),
    purge: (query) => purgeRecords({ connection, layout, abandoned }, query),
    audit: (entries) => appendAudit(connection, layout, entries),
    audited: (id, limit) => readAudit(connection, layout, id, limit),
    ...(standIn === undefined ? {} : { standIn }),
    close: () => connection.close(),
  };
}

function checkWait({ count, timeoutMs }: WaitReplicas): void {
  if (!Number.isInteger(count) || count < 1) throw new InvalidInputError("waitReplicas", "count must be a whole number of at least 1");
  // For Redis 0 means "without a limit".
  if (!Number.isInteger(timeoutMs) || timeoutMs < 1 || timeoutMs > 4000)
    throw new InvalidInputError("waitReplicas", "timeoutMs must be a whole number from 1 to 4000");
}
