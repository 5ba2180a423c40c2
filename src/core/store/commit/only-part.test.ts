import { open, type Store } from "onceflow";
import { expect, onTestFinished, test } from "vitest";
import { beginOf } from "../../../testing/contract/ledger/operations.js";
import { InvalidInputError } from "../../errors/errors.js";
import type { StartRun } from "../../runs/operation.js";

const begin = beginOf({ key: "batch" });
const start: StartRun = {
  verb: "start",
  id: "batch",
  workflow: "w",
  input: "[]",
  fingerprint: null,
  parent: null,
  creator: "test",
  retentionMs: null,
  first: null,
};

async function memory(): Promise<Store> {
  const store = await open("memory:");
  onTestFinished(() => store.close());
  return store;
}

test("a batch with two parts is rejected, and nothing of it is written", async () => {
  const store = await memory();
  const both = { ledger: begin, run: start };
  // @ts-expect-error: two parts would have two answers.
  const refused = await store.commit(both).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(InvalidInputError);
  expect(String(refused)).toContain("ledger and run");
  expect(await store.read(begin)).toBeUndefined();
  expect(await store.runs.read("batch")).toBeUndefined();
});

test("a batch without a part, or with an unknown part, is rejected", async () => {
  const store = await memory();
  for (const batch of [{}, { ledgers: begin }, { ledger: begin, record: begin }, undefined])
    await expect(store.commit(batch as never)).rejects.toBeInstanceOf(InvalidInputError);
  expect(await store.read(begin)).toBeUndefined();
});
