import { randomBytes, randomUUID } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { EncryptionError, inspect, key, list, once, open, type Store } from "onceflow";
import { create } from "onceflow/flow";
import { createHook, getStepMetadata, RetryableError, step, workflow } from "onceflow/workflow";
import { getHookByToken, getRun, readJournal, resumeHook, start } from "onceflow/workflow/api";
import pg from "pg";
import { describe, expect, inject, test } from "vitest";
import { gate } from "../kit/gate.js";
import { durableStores, everyStore, onStores, type Scene, shortMs } from "../kit/scene.js";
import { until } from "../kit/until.js";
import { freshTable } from "../servers/dynamodb/tables.js";
import { freshMongoDatabase } from "../servers/mongodb/databases.js";
import { untilStatus } from "../workflow/scene.js";

const [a, b] = ["2025-a", "2026-b"].map((id) => ({ id, key: randomBytes(32) })) as [Key, Key];
type Key = { id: string; key: Buffer };
const under = (...keys: Key[]) => ({ encryption: { keys } });

/** Stores a value at every place where values are kept, and returns what it read back. */
async function writeEverywhere(scene: Scene, store: Store, marker: string): Promise<unknown[]> {
  const said = { said: marker };
  const back: unknown[] = [];
  await once(store, { key: key.of("completed") }, () => said);
  await once(store, { key: key.of("failed"), keepFailures: true }, () => {
    throw new RangeError(marker);
  }).catch(() => {});
  back.push((await once(store, { key: key.of("completed") }, () => ({ said: "" }))) as unknown);
  back.push(await once(store, { key: key.of("failed") }, () => "").catch((error: Error) => error.message));
  const flow = create<string>(scene.name("flow"), { idempotency: store })
    .step("one", (ctx) => ctx.set("said", said))
    .step("two", (ctx) => {
      back.push(ctx.get("said"));
      throw new Error(marker);
    });
  back.push((await flow.run(marker, { key: key.of("flow") })).status);

  const token = scene.name("token");
  const child = workflow(scene.name("child"), async (given: unknown) => ({ ...said, given }));
  const flaky = step(scene.name("flaky"), async (given: unknown) => {
    if (getStepMetadata().attempt === 1) throw new RetryableError(marker, { retryAfter: 1 });
    return given;
  });
  const run = workflow(scene.name("run"), async (given: unknown) => {
    const hook = createHook({ token, metadata: said });
    const started = await start(child, [said]);
    return [await flaky(given), await started.returnValue, await hook];
  });
  const started = await start(run, [said], { store });
  await until("the hook exists", async () => (await store.runs.hook(token)) !== undefined);
  back.push((await getHookByToken(token, { store })).metadata);
  await resumeHook(token, said, { store });
  back.push(await started.returnValue);
  back.push((await readJournal(started.id, { store })).some(({ detail }) => JSON.stringify(detail).includes(marker)));
  return back;
}

/** Everything in the database, as an attacker with a copy of it would see it. */
async function stolen(scene: Scene): Promise<string> {
  if (scene.on === "sqlite") {
    const folder = dirname(scene.url.slice("sqlite:".length));
    const files = await Promise.all((await readdir(folder)).map((file) => readFile(`${folder}/${file}`, "latin1")));
    return files.join("\n");
  }
  const url = new URL(scene.url);
  const schema = url.searchParams.get("schema") as string;
  url.searchParams.delete("schema");
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string }>(
      "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = $1",
      [schema],
    );
    const texts: unknown[] = [];
    for (const { name } of rows) texts.push((await client.query(`SELECT t::text FROM ${schema}.${name} t`)).rows);
    return JSON.stringify(texts);
  } finally {
    await client.end();
  }
}

onStores("encryption", durableStores, (test) => {
  test("stored values cannot be read in the database, but through the store", async ({ scene }) => {
    const store = await scene.open(under(a));
    await scene.work({}, store);
    const said = { said: "PLAINTEXT" };
    expect(await writeEverywhere(scene, store, "PLAINTEXT")).toEqual([
      { status: "replayed", value: said, attempt: 1 },
      "PLAINTEXT",
      said,
      "failed",
      said,
      [said, { ...said, given: said }, said],
      true,
    ]);
    const seen = await stolen(scene);
    expect(seen).toContain(`sealed:${a.id}:`);
    expect(seen).not.toContain("PLAINTEXT");
    expect(seen).not.toContain(Buffer.from("PLAINTEXT").toString("base64").slice(0, 11));
  });

  test("the attacker's view finds values that are not encrypted", async ({ scene }) => {
    const { store } = await scene.work();
    await writeEverywhere(scene, store, "PLAINTEXT");
    expect(await stolen(scene)).toContain("PLAINTEXT");
  });
});

onStores("encryption keys", everyStore, (test) => {
  test("rotate: values under the old key stay readable, and new values are under the new key", async ({ scene }) => {
    const token = scene.name("token");
    const run = workflow(scene.name("run"), async (given: string) => [given, await createHook({ token })]);
    const before = await scene.work({}, await scene.open(under(a)));
    await once(before.store, { key: key.of("old") }, () => "of old");
    const started = await start(run, ["of old"], { store: before.store });
    await until("the hook exists", async () => (await before.store.runs.hook(token)) !== undefined);
    await before.worker.stop();

    const rotated = await scene.open(under(b, a));
    await scene.work({}, rotated);
    expect(await once(rotated, { key: key.of("old") }, () => "")).toMatchObject({ status: "replayed", value: "of old" });
    await once(rotated, { key: key.of("new") }, () => "new");
    await resumeHook(token, "new", { store: rotated });
    expect(await getResult(rotated, started.id)).toEqual(["of old", "new"]);

    const raw = await scene.open();
    const outcome = async (of: string) => (await raw.read({ scope: "", key: key.of(of) }))?.record.outcome;
    expect(await outcome("old")).toMatch(/^sealed:2025-a:/);
    expect(await outcome("new")).toMatch(/^sealed:2026-b:/);
    expect((await raw.runs.read(started.id))?.input).toMatch(/^sealed:2025-a:/);
    expect((await raw.runs.read(started.id))?.output).toMatch(/^sealed:2026-b:/);

    // If the old key is dropped too early, reading an old value fails with the name of the missing key; all else works.
    const early = await scene.open(under(b));
    const lost = await once(early, { key: key.of("old") }, () => "").catch((error: unknown) => error);
    expect(EncryptionError.is(lost)).toBe(true);
    expect(lost).toMatchObject({ keyId: "2025-a", code: "CANNOT_DECRYPT" });
    expect((await list(early, {})).items.map((item) => item.key)).toEqual(["new", "old"]);
    expect(await inspect(early, { key: key.of("new") })).toMatchObject({ value: "new" });
    expect(await getResult(early, started.id)).toEqual(["of old", "new"]);
  });

  test("a run whose key is missing is parked with the key's name, and continues where the key is known", async ({ scene }) => {
    const token = scene.name("token");
    let calls = 0;
    const charge = step(scene.name("charge"), async () => {
      calls += 1;
      return calls;
    });
    const run = workflow(scene.name("run"), async () => [await charge(), await createHook({ token })]);
    const before = await scene.work({}, await scene.open(under(a)));
    const started = await start(run, [], { store: before.store });
    await until("the hook exists", async () => (await before.store.runs.hook(token)) !== undefined);
    await before.worker.stop();

    const without = await scene.work({}, await scene.open(under(b)));
    await untilStatus(without.store, started.id, "diverged");
    expect((await without.store.runs.read(started.id))?.trouble).toContain(
      'was encrypted with the key "2025-a", which is not in encryption.keys',
    );
    await without.worker.stop();

    const { store } = await scene.work({}, await scene.open(under(b, a)));
    await resumeHook(token, "mail", { store });
    expect(await getResult(store, started.id)).toEqual([1, "mail"]);
    expect(calls).toBe(1);
  });

  test("can be added to a store that was not encrypted; with `required` plain values are refused", async ({ scene }) => {
    const clear = await scene.open();
    await once(clear, { key: key.of("clear") }, () => "in the clear");
    const store = await scene.open(under(a));
    expect(await once(store, { key: key.of("clear") }, () => "")).toMatchObject({ value: "in the clear" });
    const strict = await scene.open({ encryption: { keys: [a], required: true } });
    await expect(once(strict, { key: key.of("clear") }, () => "")).rejects.toThrow(/is not encrypted, but encryption.required is set/);
    // A store without the key throws instead of returning ciphertext.
    await once(store, { key: key.of("sealed") }, () => "sealed");
    await expect(once(clear, { key: key.of("sealed") }, () => "")).rejects.toThrow(/is encrypted, but this store was opened without keys/);
  });

  test("an outcome that was moved to another idempotency key cannot be decrypted", async ({ scene }) => {
    const store = await scene.open(under(a));
    await once(store, { key: key.of("mine") }, () => "mine");
    const raw = await scene.open();
    const outcome = (await raw.read({ scope: "", key: key.of("mine") }))?.record.outcome;
    const begun = await raw.commit({
      ledger: {
        verb: "begin",
        scope: "",
        key: "yours",
        owner: "o",
        fingerprint: null,
        effect: "idempotent",
        leaseMs: 1000,
        retentionMs: null,
        horizonMs: 0,
        reconcileAfterMs: 0,
        over: null,
        progress: null,
      },
    });
    expect(begun.kind).toBe("started");
    const to = { state: "completed" as const, outcome: outcome as string };
    await raw.commit({ ledger: { verb: "settle", scope: "", key: "yours", owner: "o", attempt: 1, to, note: null } });
    await expect(once(store, { key: key.of("yours") }, () => "")).rejects.toThrow(/cannot be decrypted.*changed or moved/);
  });

  test("the run of a dead worker continues on a worker that has the key, and the step runs again under its stepId", async ({ scene }) => {
    const calls: string[] = [];
    const died = gate();
    const charge = step(
      scene.name("charge"),
      async () => {
        calls.push(getStepMetadata().stepId);
        if (calls.length > 1) return "charged";
        died.open();
        return await new Promise<never>(() => {});
      },
      { effect: "keyed" },
    );
    const run = workflow(scene.name("run"), async (given: string) => [given, await charge()]);
    const doomed = await scene.workAndDie({}, under(a));
    const started = await start(run, ["input"], { store: doomed.store });
    await died.opened;
    doomed.die();
    const { store } = await scene.work({ leaseMs: shortMs }, await scene.open(under(b, a)));
    expect(await getResult(store, started.id)).toEqual(["input", "charged"]);
    expect(new Set(calls).size).toBe(1);
    expect(calls.length).toBe(2);
  });
});

async function getResult(store: Store, id: string): Promise<unknown> {
  return await getRun(id, { store }).returnValue;
}

/** Stores with a ledger only, and stores that are opened differently. All have the same option and the same wrapper. */
const others = {
  redis: { title: "Redis", fresh: async (url: string) => ({ url: `${url}?prefix=sealed-${randomUUID()}`, drop: async () => {} }) },
  dynamodb: { title: "DynamoDB", fresh: async (url: string) => freshTable(url) },
  mongodb: { title: "MongoDB", fresh: freshMongoDatabase },
} as const;

for (const [name, { title, fresh }] of Object.entries(others)) {
  const server = inject(name as keyof typeof others);
  describe.skipIf(!server.ok)(`encryption, ${title}`, () => {
    test("stored values are encrypted, and replayed", async () => {
      const { url, drop } = await fresh(server.ok ? server.url : "");
      const store = await open(url, { ...under(a), purgeEveryMs: 0 });
      const raw = await open(url, { purgeEveryMs: 0 });
      try {
        await once(store, { key: key.of("k") }, () => ({ said: "PLAINTEXT" }));
        expect(await once(store, { key: key.of("k") }, () => "")).toMatchObject({ status: "replayed", value: { said: "PLAINTEXT" } });
        expect((await raw.read({ scope: "", key: "k" }))?.record.outcome).toMatch(/^sealed:2025-a:/);
      } finally {
        await Promise.all([store.close(), raw.close()]);
        await drop();
      }
    });
  });
}
