import { open } from "onceflow";
import pg from "pg";
import { expect, inject, test } from "vitest";
import { freshDatabase } from "./servers/free-database.js";

const server = inject("postgres");

test.skipIf(!server.ok)("a schema that is up to date is opened at once, also while somebody else brings one up to date", async () => {
  const { url } = await freshDatabase(server.ok ? server.url : "");
  await (await open(url)).close();
  const other = new pg.Client(url);
  await other.connect();
  try {
    await other.query("BEGIN");
    // Every advisory lock that opening could ask for: the one that migrations take turns by is among them.
    const { rows } = await other.query("SELECT pg_advisory_xact_lock(7362094181) IS NOT NULL AS locked");
    expect(rows).toEqual([{ locked: true }]);
    await (await open(url)).close();
  } finally {
    await other.end();
  }
});
