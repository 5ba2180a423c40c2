import { key, list, once, open, purge } from "onceflow";
import { create } from "onceflow/flow";
import { createRuntime } from "onceflow/graph";
import { idempotent } from "onceflow/http";
import { createInbox } from "onceflow/inbox";
import { createOutbox } from "onceflow/outbox";
import { afterAll, expect, test } from "vitest";

const store = await open("memory:");
afterAll(() => store.close());

/** A misspelt option from a caller without types, or from one that spreads a configuration. */
const misspelt = (options: object): never => options as never;

test.each<readonly [string, RegExp, () => unknown]>([
  ["once", /retentonMs.*"retentionMs"/, () => once(store, misspelt({ key: key.of("a"), retentonMs: 1 }), () => 1)],
  ["list", /stat:.*"state"/, () => list(store, misspelt({ stat: "running" }))],
  ["purge", /befor:.*"before"/, () => purge(store, misspelt({ befor: 0 }))],
  ["createRuntime", /nodez.*"nodes"/, () => createRuntime(misspelt({ store, documents: [], nodez: {} }))],
  ["createInbox", /attemptMax.*"attemptsMax"/, () => createInbox(store, misspelt({ consumer: "mail", attemptMax: 3 }))],
  ["createOutbox", /backofMs.*"backoffMs"/, () => createOutbox(store, misspelt({ name: "mail", backofMs: 3 }))],
  ["a relay", /concurency.*"concurrency"/, () => createOutbox(store, { name: "mail" }).relay(() => undefined, misspelt({ concurency: 3 }))],
  ["HTTP keys", /requred.*"required"/, () => idempotent(() => new Response(), misspelt({ store, scope: "", requred: true }))],
  ["a flow", /idempotncy.*"idempotency"/, () => create("f", misspelt({ idempotncy: store }))],
  ["a step of a flow", /retrys.*"retries"/, () => create("f").step("a", () => 1, misspelt({ retrys: 3 }))],
  [
    "a run of a flow",
    /kee.*"key"/,
    () =>
      create("f", { store })
        .step("a", () => 1)
        .run({}, misspelt({ kee: "a" })),
  ],
])("%s: a misspelt option is refused with a suggestion", async (_of, message, call) => {
  await expect((async () => call())()).rejects.toThrow(message);
});

test("once without a handler throws an error that says so, and opens no store", async () => {
  const untyped = once as (...args: readonly unknown[]) => Promise<unknown>;
  await expect(untyped(store, { key: key.of("a") })).rejects.toThrow(/handler: must be a function/);
});
