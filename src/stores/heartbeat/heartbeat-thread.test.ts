import type { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { startHeartbeatThread } from "./heartbeat-thread.js";

test.for([
  [60_000, 1],
  [0, 0],
] as const)("with stallMsMax: %i a store that holds leases starts %i threads", async ([stallMsMax, expected]) => {
  let started = 0;
  const start = () => {
    started += 1;
    return { unref() {}, on() {}, async terminate() {} } as unknown as Worker;
  };
  const thread = startHeartbeatThread({ store: "sqlite", start, address: "unused.db", stallMsMax });
  for (const owner of ["one", "two"]) thread.hold([{ owner, leaseMs: 1000, runs: true }]);
  expect(started).toBe(expected);
  thread.alive();
  thread.drop(["one", "two"]);
  await thread.close();
});
