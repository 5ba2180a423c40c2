import { expect, test, vi } from "vitest";
import { createMemoryLedger, memoryBackend } from "../../stores/memory/backend.js";
import { ManualClock } from "../../testing/contract/manual-clock.js";
import { UnreachableError } from "../errors/errors.js";
import { createStore } from "./create-store.js";
import type { Backend } from "./store.js";

const minuteMs = 60_000;

test("a purge that fails is reported once per cause, and stops neither the other purges nor the next one", async () => {
  const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  const clock = new ManualClock();
  const memory = memoryBackend(createMemoryLedger());
  const calls = { keys: 0, runs: 0, packets: 0 };
  let cause: Error | undefined = new UnreachableError("cannot write", Object.assign(new Error("no space"), { code: "53100" }));
  const backend: Backend = {
    ...memory,
    purge: async () => {
      calls.keys += 1;
      if (cause !== undefined) throw cause;
      return 0;
    },
    runs: { ...memory.runs, purge: async () => ++calls.runs && 0 },
    packets: { ...memory.packets, purge: async () => ++calls.packets && 0 },
  };
  const store = createStore(backend, { clock });
  const reported = () => warn.mock.calls.map(([message, options]) => [String(message), (options as { code?: string }).code]);

  await clock.pass(3 * minuteMs);
  expect(calls).toEqual({ keys: 3, runs: 3, packets: 3 });
  expect(reported()).toEqual([[expect.stringMatching(/expired keys could not be removed: cannot write/), "ONCEFLOW_PURGE_FAILED"]]);

  cause = new UnreachableError("read-only", Object.assign(new Error("read-only"), { code: "25006" }));
  await clock.pass(2 * minuteMs);
  expect(reported()).toHaveLength(2);

  // It recovers and fails again: that is another outage.
  cause = undefined;
  await clock.pass(minuteMs);
  cause = new UnreachableError("read-only", Object.assign(new Error("read-only"), { code: "25006" }));
  await clock.pass(minuteMs);
  expect(reported()).toHaveLength(3);
  await store.close();
  await clock.pass(10 * minuteMs);
  expect(calls.keys).toBe(7);
  warn.mockRestore();
});
