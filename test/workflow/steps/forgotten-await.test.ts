import { configure, inspect, key, list, once, open, operation, purge, resolve } from "onceflow";
import { create } from "onceflow/flow";
import { createRuntime } from "onceflow/graph";
import { idempotent, serveOperation } from "onceflow/http";
import { idempotency as forExpress } from "onceflow/http/express";
import { idempotency as forHono } from "onceflow/http/hono";
import { idempotency as forKoa } from "onceflow/http/koa";
import { IdempotencyInterceptor } from "onceflow/http/nest";
import { createInbox } from "onceflow/inbox";
import { createOutbox } from "onceflow/outbox";
import { work, workflow } from "onceflow/workflow";
import { getRun, listRuns, readJournal, resumeHook, start, webhookHandler } from "onceflow/workflow/api";
import { afterAll, expect, test } from "vitest";

// What a program passes on if it forgets to write await before open(…).
const forgotten = open("memory:") as never;
afterAll(async () => (await (forgotten as ReturnType<typeof open>)).close());

const named = workflow("forgotten-await", async () => "done");
const charge = operation({ name: "charge", key: (id: string) => id, run: () => "done" });
const http = { store: forgotten, scope: "x" };
const ref = { key: "k" };

const uses: Readonly<Record<string, () => unknown>> = {
  once: () => once(forgotten, { key: key.of("k") }, () => 1),
  inspect: () => inspect(forgotten, ref),
  list: () => list(forgotten),
  purge: () => purge(forgotten),
  resolve: () => resolve(forgotten, { ...ref, attempt: 1 }, "notApplied"),
  "operation.once": () => charge.once(forgotten, "k"),
  configure: () => configure({ store: forgotten }),
  createRuntime: () => createRuntime({ store: forgotten, documents: [] }),
  createInbox: () => createInbox(forgotten, { consumer: "c" }),
  createOutbox: () => createOutbox(forgotten, { name: "o" }),
  "create, idempotency": () => create("f", { idempotency: forgotten }).run(1, { key: "k" }),
  "create, store": () => create("f", { store: forgotten }).run(1, { key: "k" }),
  idempotent: () => idempotent(() => new Response(), http),
  serveOperation: () => serveOperation(charge, { store: forgotten, input: () => "k" }),
  express: () => forExpress(http),
  hono: () => forHono(http),
  koa: () => forKoa(http),
  nest: () => new IdempotencyInterceptor(http),
  work: () => work(forgotten),
  start: () => start(named, [], { store: forgotten }),
  "getRun, status": () => getRun("r", { store: forgotten }).status,
  listRuns: () => listRuns({ store: forgotten }),
  readJournal: () => readJournal("r", { store: forgotten }),
  resumeHook: () => resumeHook("token", 1, { store: forgotten }),
  webhookHandler: () => webhookHandler(forgotten),
};

test.each(Object.entries(uses))("%s throws an error that says that await is missing before open", async (_name, use) => {
  const message = await Promise.resolve()
    .then(use)
    .then(
      () => "nothing",
      (error: Error) => `${error.name}: ${error.message}`,
    );
  expect(message).toMatch(/^InvalidInputError: .*is a promise.*await open\(url\)/);
});
