import { open, type Store } from "onceflow";
import { afterAll, beforeAll, describe, expect, inject, type TestContext, test } from "vitest";
import type { Act } from "../../src/core/runs/operation.js";
import {
  act as actNow,
  actOf,
  append,
  begin,
  ended,
  firstOf,
  hookOf,
  mailing,
  play,
  released,
  reopening,
  startOf,
} from "../../src/testing/contract/runs/run-operations.js";
import { sample } from "../kit/effort.js";
import { takeTurns } from "../kit/heavy.js";
import { Program } from "../kit/program.js";
import { mongoDatabase, postgresDatabase, sqliteDatabase } from "../ledger/crash-database.js";
import { type OwnMongo, ownMongo } from "../stores/mongodb/own-mongodb.js";
import type { ActDoom } from "./programs/act-worker.js";

takeTurns();

/** Runs the crash table of docs/internals/workflows.md for actions: a process dies before or after the write, and another one does the action again. */
const postgres = inject("postgres");
const mongodb = inject("mongodb");
let mongo: OwnMongo | undefined;
const databases = {
  SQLite: sqliteDatabase,
  PostgreSQL: (finished: TestContext["onTestFinished"]) => postgresDatabase(postgres.ok ? postgres.url : "", finished),
  "MongoDB (emulator)": (finished: TestContext["onTestFinished"]) => mongoDatabase(mongo?.ok ? mongo.url : "", finished),
} as const;

async function die(doom: ActDoom): Promise<void> {
  const { signal, stderr } = await new Program("runs/programs/act-worker", [JSON.stringify(doom)], { onEnd: () => {} }).ended;
  expect(signal, stderr).toBe("SIGKILL");
}

/** Everything that an action may change. */
async function pictureOf({ runs }: Store): Promise<object> {
  const ids = ["parent", "run", "fork"];
  const each = ids.map(async (id) => [await runs.read(id), await runs.journal(id, 0, 100), await runs.mail(id, 0)]);
  const chunks = await runs.chunks({ run: "run", stream: "s", from: 0, limit: 10, bytesMax: 1000 });
  return { each: await Promise.all(each), hook: await runs.hook("token"), chunks, log: await runs.log({ limit: 10 }) };
}

const chunk = { stream: "s", writer: "w", n: 0, attempt: 1, kind: "value", data: '"chunk"' } as const;

/** Prepares a run and returns the action. */
const actions: Readonly<Record<string, (store: Store) => Promise<Act>>> = {
  "mail with a time to stop": async (store) => {
    await append(store, await begin(store), { next: released() });
    return actOf({ ...mailing({ kind: "cancel" }), stopAfterMs: 1000 });
  },
  "a continuation with a hook and the withdrawal of its mail": async (store) => {
    await append(store, await begin(store, { id: "parent" }), { next: released() });
    const left = firstOf({ chunks: [{ ...chunk, writer: "forgotten" }] });
    const owned = await play(store, { parent: "parent", first: left }, ended("failed", '"why"'));
    return actOf(reopening(owned, { hooks: [hookOf("token")], chunks: [chunk], voids: [{ writer: "forgotten", attempt: 2 }] }));
  },
  "a removal": async (store) => {
    const owned = await begin(store, { first: firstOf({ hooks: [hookOf("token")], chunks: [chunk] }) });
    await actNow(store, mailing());
    await append(store, owned, { next: ended() });
    return actOf({ kind: "remove" });
  },
  "a fork": async () => actOf({ kind: "start", start: startOf({ id: "fork", timeoutMs: 1000 }) }, { id: "fork" }),
};

describe.for(Object.keys(databases) as (keyof typeof databases)[])("an operator's action on %s: the process dies", (name) => {
  const server = { SQLite: undefined, PostgreSQL: postgres, "MongoDB (emulator)": mongodb }[name];
  test.skipIf(server === undefined || server.ok)("needs its server", ({ skip }) => skip(server?.ok === false ? server.reason : ""));
  if (server?.ok === false) return;
  if (name === "MongoDB (emulator)") {
    beforeAll(async () => {
      mongo = await ownMongo();
    });
    afterAll(async () => {
      if (mongo?.ok) await mongo.stop();
    });
  }
  const rows = Object.entries(actions);
  // The emulator is slow.
  for (const [does, prepare] of name === "MongoDB (emulator)" ? sample(rows, 2) : rows) {
    for (const point of ["before", "after"] as const) {
      test(`${point} the write of ${does}`, async ({ onTestFinished }) => {
        const { url } = await databases[name](onTestFinished);
        const store = await open(url, { purgeEveryMs: 0, stallMsMax: 0 });
        onTestFinished(() => store.close());
        const act = await prepare(store);
        const before = await pictureOf(store);
        await die({ url, act, point });
        const [entry] = await store.runs.log({ id: act.log.id, limit: 1 });
        if (point === "before") expect(await pictureOf(store)).toEqual(before);
        else expect(entry).toMatchObject(act.log);
        const left = await pictureOf(store);
        const answer = await store.commit({ run: act });
        expect(answer).toMatchObject({ kind: "acted", repeated: point === "after", entry: act.log });
        const done = await pictureOf(store);
        if (point === "after") expect(done).toEqual(left);
        expect(done).not.toEqual(before);
        // Another action on the state from which this one started is not done as well.
        expect((await store.runs.log({ limit: 10 })).filter(({ id }) => id === act.log.id)).toHaveLength(1);
      });
    }
  }
});
