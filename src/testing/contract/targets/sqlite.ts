import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../../core/work/clock.js";
import { whenFree } from "../../../stores/sqlite/connection/connections.js";
import { chooseDriver, openDatabase, type SqliteDriver } from "../../../stores/sqlite/driver.js";
import type { SqliteTx } from "../../../stores/sqlite/transactions/transact.js";
import { openTarget } from "./open-target.js";
import type { BusinessRows, ContractTarget } from "./target.js";

/**
 * Makes a contract target of the SQLite store. Each ledger has its own temporary folder, which is removed afterwards.
 * The default driver is the one that the store chooses itself.
 *
 * @throws When no SQLite driver is available.
 */
export function sqliteTarget(options: { readonly driver?: SqliteDriver } = {}): ContractTarget {
  const driver = options.driver ?? chooseDriver();
  const query = options.driver === undefined ? "" : `?driver=${driver}`;
  return {
    name: `sqlite with ${driver}`,
    capabilities: { transactions: true, sharedClock: true, durable: true, runs: true, packets: true },
    severs: false,
    async create() {
      const folder = await mkdtemp(join(tmpdir(), "onceflow-contract-"));
      const path = join(folder, "ledger.db");
      return {
        open: (options) => openTarget(`sqlite:${encodeURI(path)}${query}`, options),
        business: businessRows(path, driver),
        remove: () => rm(folder, { recursive: true, force: true }),
      };
    },
  };
}

function businessRows(path: string, driver: SqliteDriver): BusinessRows {
  const table = "CREATE TABLE IF NOT EXISTS business (row TEXT NOT NULL)";
  return {
    async add(tx, row) {
      (tx as SqliteTx).prepare(table).run();
      (tx as SqliteTx).prepare("INSERT INTO business VALUES (?)").run(row);
    },
    async rows() {
      const database = openDatabase(path, driver);
      try {
        await whenFree(path, systemClock, () => database.exec(table));
        return (database.prepare("SELECT row FROM business ORDER BY rowid").all() as { row: string }[]).map(({ row }) => row);
      } finally {
        database.close();
      }
    },
    async runner(work) {
      const database = openDatabase(path, driver);
      try {
        await whenFree(path, systemClock, () => database.exec("BEGIN IMMEDIATE"));
        try {
          const result = await work(database);
          database.exec("COMMIT");
          return result;
        } catch (error) {
          database.exec("ROLLBACK");
          throw error;
        }
      } finally {
        database.close();
      }
    },
  };
}
