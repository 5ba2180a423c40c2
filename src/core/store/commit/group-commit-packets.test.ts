import { expect, test } from "vitest";
import { NotKnownError, StoreRefusedError, UnreachableError } from "../../errors/errors.js";
import type { PacketAnswer, PacketBackend, PacketOperation, SettlePacket } from "../../packets/operation.js";
import { systemClock } from "../../work/clock.js";
import type { Backend } from "../store.js";
import { GroupCommit } from "./group-commit.js";

const settle = (no: number): SettlePacket => ({
  verb: "settlePacket",
  no,
  worker: 1,
  attempt: 1,
  to: { kind: "done", keep: false, note: null },
  packets: [],
  outputs: [],
});

const settled: PacketAnswer = { kind: "packetSettled", now: 0, placed: [], woken: [], ended: [] };
const numbersOf = (operations: readonly PacketOperation[]) => operations.map((operation) => (operation as SettlePacket).no);

function commitTo(flush: (numbers: number[]) => readonly (PacketAnswer | "again")[] | Promise<readonly (PacketAnswer | "again")[]>) {
  const flushes: number[][] = [];
  const backend = {
    flush: async (operations: readonly PacketOperation[]) => {
      flushes.push(numbersOf(operations));
      return await flush(numbersOf(operations));
    },
  };
  const noRecords: Backend["flush"] = async () => [];
  const packets = backend as PacketBackend;
  const group = new GroupCommit({ backend: { name: "test", flush: noRecords, packets }, clock: systemClock, onAnswers: () => {} });
  const commit = { submit: (operation: PacketOperation) => group.submitPacket(operation), close: () => group.close() };
  return { flushes, commit };
}

const numbers = (length: number, from = 1) => Array.from({ length }, (_, i) => from + i);

test("waiting operations are flushed together, in the order of submission", async () => {
  const { commit, flushes } = commitTo((all) => all.map(() => settled));
  await Promise.all([30, 4, 200, 1].map((no) => commit.submit(settle(no))));
  expect(flushes).toEqual([[30, 4, 200, 1]]);
});

test("one flush at a time; operations submitted meanwhile are in the next one", async () => {
  let open = (): void => {};
  const { commit, flushes } = commitTo(async (all) => {
    if (flushes.length === 1) await new Promise<void>((go) => (open = go));
    return all.map(() => settled);
  });
  const first = commit.submit(settle(1));
  while (flushes.length === 0) await new Promise((go) => setImmediate(go));
  const others = [2, 3].map((no) => commit.submit(settle(no)));
  await new Promise((go) => setImmediate(go));
  expect(flushes).toEqual([[1]]);
  open();
  await Promise.all([first, ...others]);
  expect(flushes).toEqual([[1], [2, 3]]);
});

test("the size of a flush is limited", async () => {
  const { commit, flushes } = commitTo((all) => all.map(() => settled));
  await Promise.all(numbers(1000).map((no) => commit.submit(settle(no))));
  expect(flushes.map(({ length }) => length)).toEqual([512, 488]);
});

test("an operation that lost a race is first in the next flush; the others get their answers", async () => {
  const { commit, flushes } = commitTo((all) => all.map((no) => (no === 2 && flushes.length === 1 ? "again" : settled)));
  await Promise.all([1, 2, 3].map((no) => commit.submit(settle(no))));
  expect(flushes).toEqual([[1, 2, 3], [2]]);
});

test("an operation that loses every race fails in the end", async () => {
  const { commit, flushes } = commitTo((all) => all.map(() => "again"));
  await expect(commit.submit(settle(1))).rejects.toThrow(UnreachableError);
  expect(flushes.length).toBe(101);
});

test("a packet that loses every race alone does not delay others that go alone", async () => {
  const { commit, flushes } = commitTo((all) => {
    if (all.length > 1) throw new UnreachableError("57014", undefined, { answered: true });
    return all.map((no) => (no === 1 ? "again" : settled));
  });
  const [one, ...others] = numbers(5).map((no) => commit.submit(settle(no)));
  await Promise.all([expect(one).rejects.toThrow(UnreachableError), ...others]);
  // Its hundred tries come after the first try of each of the others.
  expect(flushes.slice(0, 6)).toEqual([[1, 2, 3, 4, 5], [1], [2], [3], [4], [5]]);
});

test("an operation that the store refuses fails alone, with the reason", async () => {
  const { commit, flushes } = commitTo((all) => {
    if (all.includes(2)) throw new StoreRefusedError("value too long");
    return all.map(() => settled);
  });
  const [one, two, three] = await Promise.allSettled([1, 2, 3].map((no) => commit.submit(settle(no))));
  expect([one?.status, three?.status]).toEqual(["fulfilled", "fulfilled"]);
  expect(two).toMatchObject({ status: "rejected", reason: expect.any(StoreRefusedError) });
  expect(String((two as PromiseRejectedResult).reason)).toContain("value too long");
  expect(flushes).toEqual([[1, 2, 3], [1], [2], [3]]);
});

test("a temporary error of the server fails only one packet, with that error", async () => {
  const answer = new UnreachableError("57014", undefined, { answered: true });
  const { commit, flushes } = commitTo((all) => {
    if (all.includes(2)) throw answer;
    return all.map(() => settled);
  });
  const [one, two, three] = await Promise.allSettled([1, 2, 3].map((no) => commit.submit(settle(no))));
  expect([one?.status, three?.status]).toEqual(["fulfilled", "fulfilled"]);
  expect(two).toEqual({ status: "rejected", reason: answer });
  expect(flushes).toEqual([[1, 2, 3], [1], [2], [3]]);
});

test("after one error, a server that has recovered gets the packets of that flush in growing groups", async () => {
  let failures = 1;
  const error = new UnreachableError("25006", undefined, { answered: true });
  const { commit, flushes } = commitTo((all) => {
    if (failures-- > 0) throw error;
    return all.map(() => settled);
  });
  await Promise.all(numbers(300).map((no) => commit.submit(settle(no))));
  expect(flushes.length).toBeLessThan(30);
  // Each of them once more, in the order of submission.
  expect(flushes.slice(1).flat()).toEqual(numbers(300));
});

test("one packet that always fails is found among many, and the others are answered in order", async () => {
  const error = new UnreachableError("57014", undefined, { answered: true });
  const answered: number[] = [];
  const { commit, flushes } = commitTo((all) => {
    if (all.includes(150)) throw error;
    answered.push(...all);
    return all.map(() => settled);
  });
  const outcomes = await Promise.allSettled(numbers(300).map((no) => commit.submit(settle(no))));
  expect(outcomes.flatMap(({ status }, i) => (status === "rejected" ? [i + 1] : []))).toEqual([150]);
  expect(answered).toEqual(numbers(300).filter((no) => no !== 150));
  expect(flushes.length).toBeLessThan(150);
});

test("a packet that loses every race does not delay other packets that are sent one by one", async () => {
  const error = new UnreachableError("57014", undefined, { answered: true });
  const { commit, flushes } = commitTo((all) => {
    if (all.some((no) => no !== 1)) throw error;
    return all.map(() => "again");
  });
  const answers = numbers(10).map((no) => commit.submit(settle(no)));
  await Promise.allSettled(answers.slice(1));
  expect(flushes.length).toBeLessThan(15);
  await expect(answers[0]).rejects.toThrow("the packet was changed by others during each of 100 tries");
});

test("if the connection is lost while packets are sent one by one, the rest fail at once", async () => {
  const [answer, lost] = [new UnreachableError("57014", undefined, { answered: true }), new NotKnownError("lost")];
  const { commit, flushes } = commitTo((all) => {
    throw all.length > 1 ? answer : lost;
  });
  for (const each of await Promise.allSettled([1, 2, 3].map((no) => commit.submit(settle(no)))))
    expect(each).toEqual({ status: "rejected", reason: lost });
  expect(flushes).toEqual([[1, 2, 3], [1]]);
});

test.each([UnreachableError, NotKnownError])("%o of a flush fails all its operations, and is not retried here", async (Trouble) => {
  const { commit, flushes } = commitTo(() => {
    throw new Trouble("gone");
  });
  const all = await Promise.allSettled([1, 2].map((no) => commit.submit(settle(no))));
  for (const each of all) expect(each).toMatchObject({ status: "rejected", reason: expect.any(Trouble) });
  expect(flushes).toEqual([[1, 2]]);
});

test("close writes submitted operations, and refuses later ones", async () => {
  const { commit, flushes } = commitTo((all) => all.map(() => settled));
  const before = commit.submit(settle(1));
  const closing = commit.close();
  await expect(commit.submit(settle(2))).rejects.toThrow("the store is closed");
  await closing;
  expect(await before).toEqual(settled);
  expect(flushes).toEqual([[1]]);
});
