import { mkdtemp, stat } from "node:fs/promises";
import { join } from "node:path";
import { open } from "onceflow";
import { type Conditions, versionOf } from "../conditions.js";
import { executes, freshKeys, ours, replays, settleAll, times } from "./ours.js";
import { connect, SqliteFloor, sqliteDriver } from "./sqlite-floor.js";
import type { ReplayWrites, Subject } from "./subject.js";

export function sqliteSubject(folder: string): Subject {
  const driver = sqliteDriver();
  const newFile = async () => join(await mkdtemp(join(folder, "sqlite-")), "bench.db");
  const urlOf = (path: string) => `sqlite:${path}?driver=${driver}`;
  const pathOf = (url: string) => url.slice("sqlite:".length).split("?")[0] ?? "";
  return {
    name: "sqlite",
    conditions: sqliteConditions(),
    emptyUrl: async () => urlOf(await newFile()),
    async prepare({ kind }) {
      const store = await open(urlOf(await newFile()));
      const database = connect(await newFile(), driver);
      const floor = new SqliteFloor(database);
      const floors = kind === "executed" ? [floor.bare(), floor.batched()] : [floor.read()];
      return {
        contenders: [await ours(store, kind), ...floors],
        async close() {
          database.close();
          await store.close();
        },
      };
    },
    countReplayWrites: async (count) => countReplayWrites(await newFile(), urlOf, count),
    storedBytes: async (url) => (await stat(pathOf(url))).size,
    close: async () => {},
  };
}

export function sqliteConditions(): Conditions {
  const driver = sqliteDriver();
  return {
    sqlite: `${sqliteVersion()}, WAL, synchronous = FULL`,
    "sqlite driver": driver === "@photostructure/sqlite" ? `@photostructure/sqlite ${versionOf("@photostructure/sqlite")}` : driver,
  };
}

function sqliteVersion(): string {
  const database = connect(":memory:", sqliteDriver());
  const row = database.prepare("SELECT sqlite_version() AS version").get() as { version: string };
  database.close();
  return row.version;
}

/** `data_version` changes on a connection when another connection has committed a change; the log file grows with every write. */
async function countReplayWrites(path: string, urlOf: (path: string) => string, count: number): Promise<ReplayWrites> {
  const store = await open(urlOf(path));
  const watcher = connect(path, sqliteDriver());
  const readCounters = async () => ({
    version: (watcher.prepare("PRAGMA data_version").get() as { data_version: number }).data_version,
    logBytes: (await stat(`${path}-wal`)).size,
  });
  try {
    await settleAll(store);
    // Starts with an empty log, so that every written page makes the file longer.
    watcher.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    const before = await readCounters();
    await times(count, 64, replays(store));
    const after = await readCounters();
    await executes(store, freshKeys("control"))();
    const control = await readCounters();
    return {
      replays: count,
      counters: [
        {
          name: "changes seen by another connection (data_version)",
          byReplays: after.version - before.version,
          byOneExecuted: control.version - after.version,
        },
        { name: "bytes of write-ahead log", byReplays: after.logBytes - before.logBytes, byOneExecuted: control.logBytes - after.logBytes },
      ],
    };
  } finally {
    watcher.close();
    await store.close();
  }
}
