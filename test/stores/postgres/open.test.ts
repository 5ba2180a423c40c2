import { connect, createServer } from "node:net";
import { ConfigurationError, InvalidInputError, open, UnreachableError } from "onceflow";
import pg from "pg";
import { expect, inject, onTestFinished, test } from "vitest";
import { letTimePass } from "../../kit/real-time.js";
import { execute, freshDatabase } from "../../servers/postgres/databases.js";
import { freePort } from "../../servers/process/free-port.js";

const server = inject("postgres");

test.skipIf(!server.ok)("an up-to-date schema is opened at once, also while another process holds the migration lock", async () => {
  const { url } = await freshDatabase(server.ok ? server.url : "");
  await (await open(url)).close();
  const other = new pg.Client(url);
  await other.connect();
  try {
    await other.query("BEGIN");
    // The advisory lock that migrations take: open must not ask for it.
    const { rows } = await other.query("SELECT pg_advisory_xact_lock(7362094181) IS NOT NULL AS locked");
    expect(rows).toEqual([{ locked: true }]);
    await (await open(url)).close();
  } finally {
    await other.end();
  }
});

test.skipIf(!server.ok).for(["option", "URL"])(
  "open waits up to connectMs, set in the %s, for a server that does not listen yet",
  async (where) => {
    const database = await freshDatabase(server.ok ? server.url : "");
    onTestFinished(() => database.drop());
    const target = new URL(database.url);
    const port = await freePort();
    const url = new URL(database.url);
    url.port = String(port);
    const opened = (connectMs: number) => {
      if (where === "option") return open(url.href, { connectMs });
      url.searchParams.set("connectMs", String(connectMs));
      return open(url.href);
    };
    const before = performance.now();
    await expect(opened(400)).rejects.toThrow(UnreachableError);
    expect(performance.now() - before).toBeGreaterThan(200);
    const opening = opened(30_000);
    await letTimePass(100, "the first attempts find no server; a closed port cannot count them");
    const proxy = createServer((client) => {
      const upstream = connect(Number(target.port), target.hostname);
      for (const socket of [client, upstream]) socket.on("error", () => {});
      client.pipe(upstream).pipe(client);
    });
    await new Promise<void>((listening) => void proxy.listen(port, "127.0.0.1", listening));
    onTestFinished(() => new Promise<void>((closed) => void proxy.close(() => closed())));
    await (await opening).close();
  },
);

test.skipIf(!server.ok)("open does not wait for a server that answers with an error", async () => {
  const url = new URL(server.ok ? server.url : "");
  url.pathname = "/there_is_no_such_database";
  await expect(open(url.href, { connectMs: 60_000 })).rejects.toThrow(/there_is_no_such_database/);
});

test.skipIf(!server.ok)("a role that may not create the schema gets an error that names the missing privilege", async () => {
  const database = await freshDatabase(server.ok ? server.url : "");
  onTestFinished(() => database.drop());
  const role = `reader_${Date.now()}`;
  await execute(database.url, `CREATE ROLE ${role} LOGIN PASSWORD 'x'`);
  onTestFinished(() => execute(server.ok ? server.url : "", `DROP ROLE ${role}`));
  const url = new URL(database.url);
  url.username = role;
  url.password = "x";
  const error = await open(url.href, { connectMs: 60_000 }).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(ConfigurationError);
  expect(error).toMatchObject({ code: "STORE_NOT_USABLE", message: expect.stringContaining("needs CREATE on the database") });
});

test.for([
  ["postgres://localhost/db?shcema=mine", /unknown parameter "shcema"/],
  ["postgres://localhost/db?connectMs=soon", /connectMs.*whole number/],
  ["sqlite:./x.db?drvier=node:sqlite", /unknown parameter "drvier"/],
] as const)("the URL %s is refused", async ([url, message]) => {
  const error = await open(url).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(InvalidInputError);
  expect(error).toMatchObject({ field: expect.stringContaining("url"), message: expect.stringMatching(message) });
});

test("an unknown option of open is refused, and so is connectMs for a store that does not support it", async () => {
  await expect(open("memory:", { purgeEveryMS: 0 } as never)).rejects.toThrow(/no option "purgeEveryMS".*purgeEveryMs/);
  await expect(open("redis://localhost", { connectMs: 1 })).rejects.toThrow(/PostgreSQL/);
});
