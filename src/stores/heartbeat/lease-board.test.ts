import { expect, test } from "vitest";
import { type Held, LeaseBoard } from "./lease-board.js";

const signOfLife = { workflows: ["order", "refund ü😀"], version: "1.2.3" };
const leases: readonly Held[] = [
  { owner: "a", leaseMs: 1000, runs: true },
  { owner: "b", leaseMs: 2000, runs: true, signOfLife },
  { owner: "c", leaseMs: 3000, runs: true, signOfLife: { workflows: [], version: null } },
  { owner: "d", leaseMs: 4000, worker: 7 },
  { owner: "e", leaseMs: 5000, scope: "s", key: "k", attempt: 2 },
];

test("the thread reads the leases that the event loop writes", () => {
  const board = new LeaseBoard(undefined, 8);
  for (const [slot, lease] of leases.entries()) board.write(slot, lease);
  expect(new LeaseBoard(board.memory).read()).toEqual(leases);
  board.clear(1);
  expect(board.read().map(({ owner }) => owner)).toEqual(["a", "c", "d", "e"]);
});

test("the runs of a worker whose workflow names do not fit into a slot are still renewed", () => {
  const board = new LeaseBoard(undefined, 1);
  const workflows = Array.from({ length: 500 }, (_, i) => `workflow ${i}`);
  board.write(0, { owner: "a", leaseMs: 1000, runs: true, signOfLife: { workflows, version: null } });
  expect(board.read()).toEqual([{ owner: "a", leaseMs: 1000, runs: true }]);
});
