import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { ListTablesCommand } from "@aws-sdk/client-dynamodb";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { poll } from "../kit/poll.js";
import { acquire } from "./acquire.js";
import type { Acquired } from "./acquire-from.js";
import { clientOf } from "./dynamodb/tables.js";
import { freshDatabase } from "./postgres/databases.js";
import { runCommand } from "./process/command.js";
import { childrenOf, isRunning } from "./process/processes.js";
import type { Runtime, Server } from "./provider.js";

const ACQUIRE_BOUND_MS = 700_000;
const CLEAN_UP_BOUND_MS = 10_000;

describe("a private PostgreSQL", () => {
  let acquired: Acquired<Server>;

  beforeAll(async () => {
    acquired = await acquire("postgres");
  }, ACQUIRE_BOUND_MS);

  afterAll(async () => {
    if (acquired.ok) await acquired.running.stop();
  });

  test("answers, and is has the most durable settings", async ({ skip }) => {
    const { url } = serverOf(acquired, skip);
    expect(await query(url, "select 1 as one")).toEqual([{ one: 1 }]);
    expect(await query(url, "show fsync")).toEqual([{ fsync: "on" }]);
    expect(await query(url, "show synchronous_commit")).toEqual([{ synchronous_commit: "on" }]);
  });

  test("gives each caller a separate database", async ({ skip }) => {
    const { url } = serverOf(acquired, skip);
    const databases = await Promise.all([freshDatabase(url), freshDatabase(url)]);
    for (const database of databases) await query(database.url, "create table mine (id int)");
    const open = new pg.Client({ connectionString: databases[0].url });
    open.on("error", () => {});
    await open.connect();
    for (const database of databases) await database.drop();
    for (const database of databases) await expect(query(database.url, "select 1")).rejects.toThrow("does not exist");
    await open.end().catch(() => undefined);
  });

  test("keeps what was committed when it is killed and started again", async ({ skip }) => {
    const server = privateServerOf(acquired, skip);
    await query(server.url, "create table kept (id int)");
    await query(server.url, "insert into kept values (7)");
    const before = server.pid;

    await server.kill();
    expect(before !== undefined && isRunning(before)).toBe(false);
    expect(server.pid).toBeUndefined();
    await expect(query(server.url, "select 1")).rejects.toThrow();

    await server.restart();
    expect(server.pid).not.toBe(before);
    expect(await query(server.url, "select id from kept")).toEqual([{ id: 7 }]);
  }, 60_000);

  test("leaves no process and no folder when it is stopped, also with a connection open", async ({ skip }) => {
    const { pid, folder, url, stop } = privateServerOf(acquired, skip);
    const all = [pid, ...(await childrenOf(pid))];
    const client = new pg.Client({ connectionString: url });
    client.on("error", () => {});
    await client.connect();
    expect(existsSync(folder)).toBe(true);

    await stop();
    expect(all.filter(isRunning)).toEqual([]);
    expect(existsSync(folder)).toBe(false);
    await client.end().catch(() => undefined);
    await stop();
  }, 60_000);

  test("leaves nothing behind when the process that started it is killed", async ({ skip }) => {
    privateServerOf(acquired, skip);
    const holder = spawn(process.execPath, [compiled("hold.js"), "postgres"], { stdio: ["ignore", "pipe", "inherit"] });
    const { pid, folder } = await firstLine(holder);
    const all = [pid, ...(await childrenOf(pid))];
    // A worker process of the server (autovacuum, for example) may end by itself meanwhile; the server may not.
    expect(isRunning(pid)).toBe(true);
    expect(all.length).toBeGreaterThan(1);

    holder.kill("SIGKILL");
    await once(holder, "exit");
    await poll(
      CLEAN_UP_BOUND_MS,
      () => (!existsSync(folder) && !all.some(isRunning)) || undefined,
      () => `still there: ${existsSync(folder) ? folder : "no folder"}, processes ${all.filter(isRunning).join(", ") || "none"}`,
    );
  }, 60_000);
});

describe("a private DynamoDB Local", () => {
  test("answers on loopback only, and leaves no process and no folder when it is stopped", async ({ skip }) => {
    const acquired = await acquire("dynamodb");
    const { pid, folder = "", url, stop } = serverOf(acquired, skip);
    if (pid === undefined) return skip("the tests did not start this server, so they cannot stop it");
    onTestFinished(stop);
    const { client, close } = clientOf(url);
    onTestFinished(close);
    expect((await client.send(new ListTablesCommand({}))).TableNames).toEqual([]);
    const port = Number(new URL(new URL(url).searchParams.get("endpoint") ?? "").port);
    const others = Object.values(networkInterfaces()).flatMap((all) =>
      (all ?? []).filter(({ internal, family }) => !internal && family === "IPv4"),
    );
    for (const { address: host } of others) expect(await reaches({ host, port })).toBe(false);
    expect(await reaches({ host: "127.0.0.1", port })).toBe(true);

    await stop();
    expect(isRunning(pid)).toBe(false);
    expect(existsSync(folder)).toBe(false);
  }, 60_000);
});

describe("Node 24", () => {
  let acquired: Acquired<Runtime>;

  beforeAll(async () => {
    acquired = await acquire("node24");
  }, ACQUIRE_BOUND_MS);

  test("is Node 24", async ({ skip }) => {
    if (!acquired.ok) return skip(acquired.reason);
    const version = await runCommand(acquired.running.path, ["-p", "process.version"], { boundMs: 10_000 });
    expect(version).toMatch(/^v24\./);
  });
});

describe("acquire", () => {
  test("reports what was tried", async () => {
    await withVariable("ONCEFLOW_TEST_POSTGRES_URL", "postgres://127.0.0.1:1/nothing", async () => {
      const reason = "ONCEFLOW_TEST_POSTGRES_URL: connect ECONNREFUSED 127.0.0.1:1";
      expect(await acquire("postgres")).toEqual({ ok: false, reason, promised: true });
    });
    await withVariable("ONCEFLOW_TEST_NODE24", "/nowhere/node", async () => {
      const reason = expect.stringContaining("ONCEFLOW_TEST_NODE24: /nowhere/node --version failed (ENOENT)");
      expect(await acquire("node24")).toEqual({ ok: false, reason, promised: true });
    });
  });

  test("uses a server that was given by its URL, and does not stop it", async ({ skip }) => {
    const own = await acquire("postgres");
    const { url, stop } = serverOf(own, skip);
    await withVariable("ONCEFLOW_TEST_POSTGRES_URL", url, async () => {
      const given = await acquire("postgres");
      if (!given.ok) throw new Error(given.reason);
      expect(given.running).toMatchObject({ url, from: "ONCEFLOW_TEST_POSTGRES_URL" });
      expect(given.running.kill).toBeUndefined();
      await given.running.stop();
      expect(await query(url, "select 1 as one")).toEqual([{ one: 1 }]);
    });
    await stop();
  }, 60_000);
});

function serverOf(acquired: Acquired<Server>, skip: (why: string) => never): Server {
  return acquired.ok ? acquired.running : skip(acquired.reason);
}

/** Skips the test if the server was given by its URL: then it can be neither killed nor stopped. */
function privateServerOf(acquired: Acquired<Server>, skip: (why: string) => never) {
  const server = serverOf(acquired, skip);
  if (!server.kill) skip(`${server.from} was not started by the tests, so they cannot kill it`);
  return server as Required<Server> & { readonly pid: number };
}

function reaches(address: { readonly host: string; readonly port: number }): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(address, () => resolve(true));
    socket.on("error", () => resolve(false));
    socket.on("connect", () => socket.destroy());
  });
}

async function query(url: string, text: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

/** Node runs the built files only. */
function compiled(file: string): string {
  const path = fileURLToPath(new URL(`../../.build/test/servers/${file}`, import.meta.url));
  if (!existsSync(path)) throw new Error(`no ${path}: run "npm run build" first`);
  return path;
}

async function firstLine(child: ChildProcess): Promise<{ pid: number; folder: string }> {
  if (!child.stdout) throw new Error("the output of the process is not piped");
  for await (const line of createInterface({ input: child.stdout })) return JSON.parse(line) as { pid: number; folder: string };
  throw new Error("the process ended without output");
}

async function withVariable(name: string, value: string, run: () => Promise<void>): Promise<void> {
  const before = process.env[name];
  process.env[name] = value;
  try {
    await run();
  } finally {
    if (before === undefined) delete process.env[name];
    else process.env[name] = before;
  }
}
