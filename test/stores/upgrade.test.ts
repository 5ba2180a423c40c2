import { join } from "node:path";
import type { Store } from "onceflow";
import * as main from "onceflow";
import * as workflows from "onceflow/workflow";
import * as api from "onceflow/workflow/api";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { onceflow } from "../cli/process.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { execute, type FreshDatabase, freshDatabase } from "../servers/postgres/databases.js";
import { type Built, type Version, version010 } from "./version-0-1-0.js";

/** Runs both versions in one process, on one database, like two processes of a rolling deployment. */
const present = { ...main, ...workflows, ...api } as Version;
const postgres = inject("postgres");
const folder = temporaryFolder(afterAll);
let built: Built | string;
let former: Version;
let database: FreshDatabase | undefined;

beforeAll(async () => {
  built = await version010();
  if (typeof built !== "string") former = built.version;
  if (postgres.ok) database = await freshDatabase(postgres.url);
}, 600_000);

afterAll(async () => {
  if (typeof built === "object") await built.remove();
  await database?.drop();
});

async function opened(version: Version, url: string): Promise<Store> {
  const store = await version.open(url, { stallMsMax: 0, purgeEveryMs: 0 });
  onTestFinished(() => store.close());
  return store;
}

const effects = new Map<string, number>();
const count = (name: string) => effects.set(name, (effects.get(name) ?? 0) + 1);

/** Executes or replays the key: the value says which version executed it. */
async function ask(version: Version, store: Store, key: string): Promise<unknown> {
  const { status, value } = await version.once(store, { key: version.key.of(key) }, () => {
    count(key);
    return version === former ? "by 0.1.0" : "by the new one";
  });
  return [status, value];
}

/** The same workflow in the code of each version. */
function orderOf(version: Version) {
  const charge = version.step("charge", async (id: string) => {
    count(id);
    return `${id} charged`;
  });
  return version.workflow("order", async (id: string) => {
    const hook = version.createHook<string>({ token: `hook of ${id}` });
    return [await charge(id), await hook];
  });
}

async function begin(version: Version, store: Store, id: string): Promise<void> {
  await version.start(orderOf(version), [id], { id, store });
}

/** Runs a worker until the run, which waits for its hook meanwhile, has ended. */
async function finish(version: Version, store: Store, id: string): Promise<unknown> {
  const order = orderOf(version);
  const worker = await version.work(store, { workflows: [order], pollMs: 20 });
  try {
    await expect.poll(() => store.runs.hook(`hook of ${id}`), { timeout: 60_000 }).toBeDefined();
    await version.resumeHook(`hook of ${id}`, "said", { store });
    return await version.getRun(id, { store }).returnValue;
  } finally {
    await worker.stop();
  }
}

describe.for([
  ["SQLite", "sqlite"],
  ["PostgreSQL", "postgres"],
] as const)("%s, beside 0.1.0", ([_title, kind]) => {
  const urlOf = (name: string, skip: (reason: string) => never) => {
    if (typeof built === "string") return skip(built);
    if (kind === "sqlite") return `sqlite:${join(folder, `${name}.db`)}`;
    return postgres.ok ? `${database?.url}?schema=${name}` : skip(postgres.reason);
  };

  test("a rolling deployment: both versions read and write, and a process of 0.1.0 can be started again", async ({ skip }) => {
    const url = urlOf("rolling", skip);
    const before = await opened(former, url);
    expect(await ask(former, before, `${kind} first`)).toEqual(["executed", "by 0.1.0"]);
    await begin(former, before, `${kind} run of 0.1.0`);

    const store = await opened(present, url);
    expect(await ask(present, store, `${kind} first`)).toEqual(["replayed", "by 0.1.0"]);
    expect(await ask(present, store, `${kind} second`)).toEqual(["executed", "by the new one"]);
    await begin(present, store, `${kind} run of the new one`);

    // The process that was there before continues, and a restarted process opens the store again.
    expect(await ask(former, before, `${kind} second`)).toEqual(["replayed", "by the new one"]);
    expect(await ask(former, before, `${kind} third`)).toEqual(["executed", "by 0.1.0"]);
    const restarted = await opened(former, url);
    expect(await ask(former, restarted, `${kind} second`)).toEqual(["replayed", "by the new one"]);
    expect(await ask(present, store, `${kind} third`)).toEqual(["replayed", "by 0.1.0"]);

    // Each version finishes what the other has begun.
    expect(await finish(former, restarted, `${kind} run of the new one`)).toEqual([`${kind} run of the new one charged`, "said"]);
    expect(await finish(present, store, `${kind} run of 0.1.0`)).toEqual([`${kind} run of 0.1.0 charged`, "said"]);
    expect([...effects].filter(([name, times]) => name.startsWith(kind) && times !== 1)).toEqual([]);
  }, 120_000);

  test("rollback: 0.1.0 opens a database that the new version created", async ({ skip }) => {
    const url = urlOf("rollback", skip);
    const store = await opened(present, url);
    expect(await ask(present, store, `${kind} made`)).toEqual(["executed", "by the new one"]);
    await store.close();
    const after = await opened(former, url);
    expect(await ask(former, after, `${kind} made`)).toEqual(["replayed", "by the new one"]);
    await begin(former, after, `${kind} run after a rollback`);
    expect(await finish(former, after, `${kind} run after a rollback`)).toEqual([`${kind} run after a rollback charged`, "said"]);
  }, 120_000);

  test("a database with additions of a later version can still be opened", async ({ skip }) => {
    const url = urlOf("later", skip);
    const store = await opened(present, url);
    if (kind === "sqlite") {
      const { openDatabase, chooseDriver } = await import("../../src/stores/sqlite/driver.js");
      const file = openDatabase(join(folder, "later.db"), chooseDriver());
      file.exec("INSERT INTO onceflow_additions VALUES (999); ALTER TABLE onceflow_runs ADD COLUMN later TEXT");
      file.close();
    } else {
      await store.transact(async (tx) => {
        const client = tx as { query(sql: string): Promise<unknown> };
        await client.query("INSERT INTO later.schema_additions VALUES (999); ALTER TABLE later.runs ADD COLUMN later text");
      });
    }
    const again = await opened(present, url);
    expect(await ask(present, again, `${kind} later`)).toEqual(["executed", "by the new one"]);
    await begin(present, again, `${kind} later run`);
    expect(await finish(present, again, `${kind} later run`)).toEqual([`${kind} later run charged`, "said"]);
  }, 120_000);
});

test("a role that may not alter tables can open the store after their owner has run `onceflow migrate`", async ({ skip }) => {
  if (typeof built === "string") return skip(built);
  if (!postgres.ok) return skip(postgres.reason);
  const url = `${database?.url}?schema=separate`;
  await (await opened(former, url)).close();
  const role = `app_${Date.now()}`;
  await execute(
    database?.url ?? "",
    `CREATE ROLE ${role} LOGIN; GRANT USAGE ON SCHEMA separate TO ${role};
     GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA separate TO ${role};
     ALTER DEFAULT PRIVILEGES IN SCHEMA separate GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO ${role}`,
  );
  onTestFinished(async () => {
    await execute(database?.url ?? "", `DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });
  const limited = new URL(url);
  limited.username = role;
  const error = await present.open(limited.href).catch((e: unknown) => e);
  expect(error).toMatchObject({ code: "STORE_NOT_USABLE", message: expect.stringContaining("onceflow migrate") });
  expect(await onceflow(["migrate", "--store", url])).toMatchObject({ code: 0, out: expect.stringContaining("up to date") });
  const store = await present.open(limited.href, { stallMsMax: 0 });
  expect(await ask(present, store, "by a limited role")).toEqual(["executed", "by the new one"]);
  await store.close();
}, 120_000);
