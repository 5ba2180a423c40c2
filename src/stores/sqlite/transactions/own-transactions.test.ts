import { expect, test } from "vitest";
import { chooseDriver, openDatabase } from "../driver.js";
import { JointFlush } from "./joint-flush.js";
import { OwnTransactions } from "./own-transactions.js";

function fresh() {
  const database = openDatabase(":memory:", chooseDriver());
  database.exec("CREATE TABLE numbers (no INTEGER PRIMARY KEY) STRICT");
  const add = (no: number) => void database.prepare("INSERT INTO numbers VALUES (?)").run(no);
  const numbers = () => (database.prepare("SELECT no FROM numbers").all() as { no: number }[]).map(({ no }) => no);
  const transactions = new OwnTransactions(database);
  const joint = new JointFlush({
    transactions,
    writeAtOnce: (work) => ({ result: work() }),
    writeInTurn: async (work) => work(),
    explained: (error) => error,
  });
  return { database, transactions, joint, add, numbers };
}

test("a write inside a write can be rolled back by itself", () => {
  const { transactions, add, numbers } = fresh();
  transactions.write(() => {
    add(1);
    transactions.write(
      () => add(2),
      () => false,
    );
    transactions.write(() => add(3));
    expect(() => transactions.write(() => add(3))).toThrow();
    add(4);
  });
  expect(numbers()).toEqual([1, 3, 4]);
});

test("a write whose inner write was rolled back can be rolled back as a whole", () => {
  const { transactions, add, numbers } = fresh();
  transactions.write(() => {
    add(1);
    transactions.write(
      () => {
        add(2);
        expect(() => transactions.write(() => add(2))).toThrow();
      },
      () => false,
    );
  });
  expect(numbers()).toEqual([1]);
});

test("the cache of a write is discarded when the outer transaction is rolled back", () => {
  const { transactions, add, numbers } = fresh();
  const forgotten: string[] = [];
  expect(() =>
    transactions.write(() => {
      transactions.write(() => {
        transactions.ifUndone(() => forgotten.push("inner"));
        add(1);
      });
      throw new Error("the disk is full");
    }),
  ).toThrow("the disk is full");
  expect(forgotten).toEqual(["inner"]);
  transactions.write(() => transactions.ifUndone(() => forgotten.push("kept")));
  expect(() => transactions.write(() => add(1.5))).toThrow();
  expect(forgotten).toEqual(["inner"]);
  expect(numbers()).toEqual([]);
});

test("flushes that are combined commit or fail one by one", async () => {
  const { joint, add, numbers } = fresh();
  const works = [() => add(1), () => add(1), () => add(2)];
  const outcomes = await Promise.allSettled(works.map((work) => joint.run(work)));
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(numbers()).toEqual([1, 2]);
});

test("if SQLite rolls back the whole transaction, no part of it is written, and no later part outside it", async () => {
  const { database, joint, add, numbers } = fresh();
  const lost = () => {
    // What SQLite does if the disk is full.
    database.exec("ROLLBACK");
    throw new Error("the disk is full");
  };
  const outcomes = await Promise.allSettled([() => add(1), lost, () => add(2)].map((work) => joint.run(work)));
  for (const outcome of outcomes) expect(outcome).toMatchObject({ status: "rejected", reason: { message: "the disk is full" } });
  expect(numbers()).toEqual([]);
  await joint.run(() => add(3));
  expect(numbers()).toEqual([3]);
});
