import { expect, test, vi } from "vitest";
import { startStandIn } from "./heartbeat-thread.js";

const threads = vi.hoisted(() => ({ started: 0 }));

vi.mock("node:worker_threads", () => {
  class Worker {
    constructor() {
      threads.started += 1;
    }
    unref() {}
    on() {}
    async terminate() {}
  }
  return { Worker };
});

test.for([
  [60_000, 1],
  [0, 0],
] as const)("with stallMsMax: %i a store that holds leases starts %i threads", async ([stallMsMax, expected]) => {
  threads.started = 0;
  const standIn = startStandIn({ kind: "sqlite", path: "unused.db", driver: "node:sqlite" }, stallMsMax);
  for (const owner of ["one", "two"]) standIn.hold([{ owner, leaseMs: 1000, runs: true }]);
  expect(threads.started).toBe(expected);
  standIn.alive();
  standIn.drop(["one", "two"]);
  await standIn.close();
});
