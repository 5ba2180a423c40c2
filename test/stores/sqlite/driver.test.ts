import { createRequire } from "node:module";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { SqliteDatabase } from "../../../src/stores/sqlite/driver.js";
import { temporaryFolder } from "../../kit/temporary-folder.js";

const require = createRequire(import.meta.url);
const [major = 0] = process.versions.node.split(".").map(Number);
const drivers = ["@photostructure/sqlite", ...(major > 22 ? ["node:sqlite"] : [])];

/** What we rely on in a driver and SQLite alone does not promise. docs/adr/0005 describes a driver that failed these tests. */
describe.each(drivers)("%s", (driver) => {
  const { DatabaseSync } = require(driver) as { DatabaseSync: new (path: string) => SqliteDatabase };

  function connections(count: number): SqliteDatabase[] {
    const folder = temporaryFolder(onTestFinished);
    const opened = Array.from({ length: count }, () => new DatabaseSync(join(folder, "some.db")));
    onTestFinished(() => {
      for (const database of opened) database.close();
    });
    opened[0]?.exec("PRAGMA journal_mode = WAL; CREATE TABLE t (x INTEGER)");
    for (const database of opened) database.exec("PRAGMA busy_timeout = 0");
    return opened;
  }

  test("a statement that failed because the file was busy does not prevent later commits", () => {
    const [ours, other, reader] = connections(3) as [SqliteDatabase, SqliteDatabase, SqliteDatabase];
    const first = ours.prepare("INSERT INTO t VALUES (1)");
    const second = ours.prepare("INSERT INTO t VALUES (2)");
    other.exec("BEGIN IMMEDIATE");
    expect(() => first.run()).toThrow("database is locked");
    other.exec("COMMIT");
    expect(Number(second.run().changes)).toBe(1);
    expect({ ...(reader.prepare("SELECT count(*) AS n FROM t").get() as object) }).toEqual({ n: 1 });
  });

  test("a select that was not read to its end holds no snapshot", () => {
    const [ours, other] = connections(2) as [SqliteDatabase, SqliteDatabase];
    other.exec("INSERT INTO t VALUES (1), (2)");
    ours.prepare("SELECT x FROM t").get();
    other.exec("INSERT INTO t VALUES (3)");
    expect(Number(ours.prepare("INSERT INTO t VALUES (4)").run().changes)).toBe(1);
  });
});
