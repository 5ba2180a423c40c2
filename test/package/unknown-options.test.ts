import { inspect, key, list, once, operation, purge, resolve, type Store } from "onceflow";
import { alertOn } from "onceflow/alerts";
import { Flow } from "onceflow/flow";
import { idempotent, idempotentFetch, serveOperation } from "onceflow/http";
import { createInbox } from "onceflow/inbox";
import { createOutbox } from "onceflow/outbox";
import { getRun, listRuns, listWorkers, readJournal, runsWithoutWorker } from "onceflow/workflow/api";
import { expect } from "vitest";
import { oneEdge } from "../graph/documents.js";
import { running } from "../graph/runtimes.js";
import { onStores } from "../kit/scene.js";

/** Options are objects that a caller may have misspelt: TypeScript does not see that in a value that it does not know as a literal. */
type Misspelt = never;
const misspelt = (name: string, more: object = {}) => ({ ...more, [name]: 1 }) as Misspelt;

const charge = operation({ name: "charge", key: ({ id }: { id: string }) => id, run: () => 1 });
const message = { id: "1", payload: {} };

/** Each calls a public function with an option that does not exist. */
const calls: Readonly<Record<string, (store: Store) => unknown>> = {
  "once: effekt": (store) => once(store, misspelt("effekt", { key: "k", input: 1 }), () => 1),
  "operation.once: wait": (store) => charge.once(store, { id: "1" }, misspelt("wait")),
  "inspect: scop": (store) => inspect(store, misspelt("scop", { key: "k" })),
  "resolve: scop": (store) => resolve(store, misspelt("scop", { key: "k", attempt: 1 }), "notApplied"),
  "list: stat": (store) => list(store, misspelt("stat")),
  "purge: befor": (store) => purge(store, misspelt("befor")),
  "flow: key": () => new Flow("f").step("s", () => ({})).run({}, misspelt("keey")),
  "getRun: stor": (store) => getRun("r", misspelt("stor", { store })),
  "listWorkers: limt": (store) => listWorkers(misspelt("limt", { store })),
  "runsWithoutWorker: cursr": (store) => runsWithoutWorker(misspelt("cursr", { store })),
  "listRuns: stat": (store) => listRuns(misspelt("stat", { store })),
  "readJournal: afterr": (store) => readJournal("r", misspelt("afterr", { store })),
  "idempotent: scop": (store) => idempotent(() => new Response(), misspelt("scop", { store, scope: () => "" })),
  "idempotentFetch: tries": () =>
    idempotentFetch("http://127.0.0.1:1", {}, misspelt("tries", { fetch: () => Promise.reject(new Error("sent")) })),
  "serveOperation: wait": (store) => serveOperation(charge, misspelt("wait", { store, input: () => ({ id: "1" }) })),
  "createInbox: consumr": (store) => createInbox(store, misspelt("consumr", { consumer: "c" })),
  "inbox.handle: signl": (store) => createInbox(store, { consumer: "c" }).handle(message, () => 1, misspelt("signl")),
  "inbox.handleBatch: signl": (store) => createInbox(store, { consumer: "c" }).handleBatch([message], () => 1, misspelt("signl")),
  "inbox.deadLetters: limt": (store) => createInbox(store, { consumer: "c" }).deadLetters(misspelt("limt")),
  "inbox.retry: mesage": (store) => createInbox(store, { consumer: "c" }).retry("1", () => 1, misspelt("mesage")),
  "alertOn: onn": (store) => alertOn(misspelt("onn", { store, send: () => {} })),
  "createOutbox: nam": (store) => createOutbox(store, misspelt("nam", { name: "o" })),
  "outbox.add: ky": (store) => createOutbox(store, { name: "o" }).add(undefined, misspelt("ky", { payload: 1 })),
  "outbox.deadLetters: limt": (store) => createOutbox(store, { name: "o" }).deadLetters(misspelt("limt")),
};

onStores("an option that does not exist is refused", ["memory"], (on) => {
  for (const [name, call] of Object.entries(calls))
    on(name, async ({ scene }) => {
      const store = await scene.open();
      const refused = expect(async () => await call(store)).rejects;
      await refused.toMatchObject({ code: "INVALID_INPUT", message: expect.stringMatching(/is not an option; (did you mean|options:)/) });
    });

  on("by the calls of a runtime", async ({ scene }) => {
    const runtime = await running(scene, oneEdge(), {}, { work: false });
    const refused = { code: "INVALID_INPUT", message: expect.stringMatching(/is not an option; did you mean/) };
    await expect(runtime.trigger("flow", "In", {}, misspelt("ky"))).rejects.toMatchObject(refused);
    await expect(runtime.executions(misspelt("flw"))).rejects.toMatchObject(refused);
    await expect(runtime.deadLetters(misspelt("queu"))).rejects.toMatchObject(refused);
  });
});

onStores("a record of a list", ["memory"], (on) => {
  on("can be inspected, because it names its key and its scope", async ({ scene }) => {
    const store = await scene.open();
    await once(store, { key: key.of("k"), scope: "s", input: 1 }, () => 1);
    const [record] = (await list(store, {})).items;
    expect((await inspect(store, record ?? { key: "" }))?.state).toBe("completed");
  });
});
