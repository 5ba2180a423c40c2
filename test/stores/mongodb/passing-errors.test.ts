import { type ClientSession, MongoClient } from "mongodb";
import { ConfigurationError, key as keyOf, NotSavedError, once, open, type Store } from "onceflow";
import { createHook, step, work, workflow } from "onceflow/workflow";
import { resumeHook, start } from "onceflow/workflow/api";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test } from "vitest";
import { thrownBy } from "../../kit/thrown-by.js";
import { until } from "../../kit/until.js";
import { captureWarnings } from "../../kit/warnings.js";
import { acquire } from "../../servers/acquire.js";
import { effect, effects, expectDoneOnce } from "../counted-effects.js";
import { fastClock } from "../fast-clock.js";

interface Failure {
  readonly errorCode?: number;
  /** The command is executed all the same. */
  readonly writeConcernError?: { readonly code: number; readonly errmsg: string };
  readonly errorLabels?: readonly string[];
}

/** Error answers of MongoDB that are transient: they do not refuse the data. */
const passing: readonly Failure[] = [
  ...[133, 134, 202, 217, 462, 8000, 13388, 14031].map((errorCode) => ({ errorCode })),
  { errorCode: 1, errorLabels: ["RetryableWriteError"] },
  { errorCode: 251, errorLabels: ["TransientTransactionError"] },
];
/** Answers to a commit that leave open whether it was executed. In the first case it was not, in the second it was. */
const unknownCommits: Readonly<Record<string, Failure>> = {
  "not done": { errorCode: 50, errorLabels: ["UnknownTransactionCommitResult"] },
  done: { writeConcernError: { code: 64, errmsg: "waiting for replication timed out" }, errorLabels: ["UnknownTransactionCommitResult"] },
};
const nameOf = ({ errorCode, errorLabels = [] }: Failure) => [errorCode, ...errorLabels].join(" ");
const writes = ["findAndModify", "update", "insert"];
const withoutEnd = 1_000_000;

describe.skipIf(!inject("mongodb").ok)("transient errors of MongoDB", () => {
  /** Its own server: a fail point affects the whole server. */
  let place = "";
  let store: Store;
  let admin: MongoClient;
  const stops: (() => unknown)[] = [];

  beforeAll(async () => {
    const acquired = await acquire("mongodb");
    if (!acquired.ok || acquired.running.kill === undefined) return;
    stops.push(acquired.running.stop);
    const [address = "", query = ""] = acquired.running.url.split("?");
    // Without the driver's retry, which hides the first failure.
    place = `${address}?${new URLSearchParams([...new URLSearchParams(query), ["retryWrites", "false"]])}`;
    admin = await new MongoClient(acquired.running.url).connect();
    store = await open(place, { purgeEveryMs: 0, stallMsMax: 0 });
  });
  afterAll(async () => {
    await store?.close();
    await admin?.close();
    for (const stop of stops) await stop();
  });
  beforeEach(({ skip }) => {
    if (place === "") skip("the tests did not start this server, so they cannot make it fail");
  });

  /** Sets the fail point, and returns how many commands the previous one has failed. */
  async function failing(failure: Failure | undefined, times: number, failCommands = writes): Promise<number> {
    const mode = failure === undefined ? "off" : { times };
    const { count } = await admin.db("admin").command({ configureFailPoint: "failCommand", mode, data: { ...failure, failCommands } });
    return count as number;
  }

  test.for(passing.map((failure) => [nameOf(failure), failure] as const))(
    "%s at a begin, at a settle, at a renewal: the effect runs once, and its result is kept",
    async ([name, failure]) => {
      await failing(failure, 3);
      const held = once(store, { key: keyOf.of(name), leaseMs: 1500 }, async ({ signal }) => {
        const before = store.metrics.renewed;
        await failing(failure, 2, ["findAndModify"]);
        await until("the lease is renewed", () => store.metrics.renewed > before);
        expect(signal.aborted).toBe(false);
        await failing(failure, 3);
        return effect(name);
      });
      expect(await held).toMatchObject({ status: "executed", value: `done ${name}` });
      await expectDoneOnce(store, name);
    },
  );

  test("fifty settles fail repeatedly: each is saved in the end", async () => {
    const names = Array.from({ length: 50 }, (_, i) => `one of fifty ${i}`);
    let begun = 0;
    const saving = Promise.all(
      names.map((name) =>
        once(store, { key: keyOf.of(name), leaseMs: 60_000 }, async () => {
          begun += 1;
          await until("all handlers run", () => begun === names.length);
          await failing({ errorCode: 133 }, withoutEnd);
          return effect(name);
        }),
      ),
    );
    await until("all handlers run", () => begun === names.length);
    // Each request for the count sets the fail point again, which resets the count.
    let failures = 0;
    await until("the settles have failed several times", async () => {
      failures += await failing({ errorCode: 133 }, withoutEnd);
      return failures >= 5 * names.length;
    });
    await failing(undefined, 0);
    await saving;
    for (const name of names) await expectDoneOnce(store, name);
  });

  test("each error at a journal entry: the step runs once", async () => {
    let failure: Failure = passing[0] as Failure;
    const charge = step("charge on a failing MongoDB", async (name: string) => {
      await failing(failure, 3, [...writes, "commitTransaction"]);
      return effect(name);
    });
    const order = workflow("order on a failing MongoDB", async (name: string) => await charge(name));
    const worker = await work(store, { workflows: [order] });
    onTestFinished(() => worker.stop({ graceMs: 0 }));
    for (const each of passing) {
      failure = each;
      const name = `journal ${nameOf(each)}`;
      expect(await (await start(order, [name], { id: name, store })).returnValue).toBe(`done ${name}`);
      expect(effects.get(name)).toBe(1);
    }
  });

  test.for(Object.entries(unknownCommits))(
    "UnknownTransactionCommitResult at the commit of a handler's transaction, which was %s: its row is there once, and its result is kept",
    async ([how, failure]) => {
      const name = `commit ${how}`;
      const rows = ({ client }: { readonly client: MongoClient }) => client.db("unknown_commits").collection("rows");
      const paid = await once(store, { key: keyOf.of(name), tx: true }, async ({ tx }) => {
        const session = tx as ClientSession & { readonly client: MongoClient };
        await rows(session).insertOne({ name }, { session });
        await failing(failure, 3, ["commitTransaction"]);
        return effect(name);
      });
      expect(paid).toMatchObject({ status: "executed", value: `done ${name}` });
      expect(await failing(undefined, 0)).toBe(3);
      await expectDoneOnce(store, name);
      expect(await rows({ client: admin }).find({ name }).toArray()).toHaveLength(1);
    },
  );

  test.for(Object.entries(unknownCommits))(
    "UnknownTransactionCommitResult at a journal entry of several documents, which was %s: the step runs once, and the run goes on",
    async ([how, failure]) => {
      const name = `journal commit ${how}`;
      const charge = step(`charge, ${name}`, async () => {
        await failing(failure, 3, ["commitTransaction"]);
        return effect(name);
      });
      const order = workflow(`order, ${name}`, async () => {
        const charged = await charge();
        return [charged, await createHook<string>({ token: name })];
      });
      const worker = await work(store, { workflows: [order] });
      onTestFinished(() => worker.stop({ graceMs: 0 }));
      const run = await start(order, [], { id: name, store });
      await resumeHook(name, "approved", { store });
      expect(await run.returnValue).toEqual([`done ${name}`, "approved"]);
      expect(await failing(undefined, 0)).toBe(3);
      expect(effects.get(name)).toBe(1);
    },
  );

  test("an error that does not end: a begin fails after 10 s with the code, a settle gets NotSavedError after a minute and is saved later", async () => {
    const warnings = captureWarnings("ONCEFLOW_NOT_SAVED");
    const quick = await open(place, { purgeEveryMs: 0, stallMsMax: 0, clock: fastClock(50) });
    onTestFinished(() => quick.close());
    const name = "without end";
    const unsaved = await thrownBy(
      once(quick, { key: keyOf.of(name), leaseMs: 600_000 }, async () => {
        await failing({ errorCode: 202 }, withoutEnd);
        return effect(name);
      }),
    );
    expect(unsaved).toBeInstanceOf(NotSavedError);
    expect(warnings[0]?.message).toMatch(/key "without end".*202: injected failure/);
    const error = await thrownBy(once(quick, { key: keyOf.of("never begun") }, () => effect("never begun")));
    expect(error.message).toContain("202: injected failure");
    expect(effects.get("never begun")).toBeUndefined();
    await failing(undefined, 0);
    await until("the settle is saved", async () => (await quick.read({ scope: "", key: name }))?.record.state === "completed");
    await expectDoneOnce(store, name);
  });

  test("a missing right is reported at once before an effect; a validation failure refuses the data", async () => {
    await failing({ errorCode: 13 }, 1);
    const denied = await thrownBy(once(store, { key: keyOf.of("denied") }, () => effect("denied")));
    expect(denied).toBeInstanceOf(ConfigurationError);
    expect(denied).toMatchObject({ code: "STORE_NOT_USABLE", message: expect.stringContaining("13: injected failure") });
    await failing({ errorCode: 121 }, 1);
    await expect(once(store, { key: keyOf.of("invalid") }, () => effect("invalid"))).rejects.toMatchObject({ code: "STORE_REFUSED" });
  });
});
