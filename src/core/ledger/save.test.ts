import { expect, test } from "vitest";
import { createMemoryLedger, memoryBackend } from "../../stores/memory/backend.js";
import { NotKnownError, UnreachableError } from "../errors/errors.js";
import { createStore } from "../store/create-store.js";
import type { Backend } from "../store/store.js";
import { key } from "./key.js";
import { once } from "./once.js";

const k = key.of("begin:1");

/**
 * Two processes on one ledger. The first begin of one of them is written, but its reply is lost, and the store cannot be reached
 * until the lease of that begin has expired on the ledger's clock.
 */
function twoProcesses(leaseMs: number) {
  let aheadMs = 0;
  const ledger = createMemoryLedger(() => Math.floor(performance.now() + aheadMs));
  const backend = memoryBackend(ledger);
  let state: "healthy" | "away" | "back" = "healthy";
  let triesLeft = 4;
  const flush: Backend["flush"] = async (operations) => {
    if (state === "away") {
      triesLeft -= 1;
      if (triesLeft === 0) {
        aheadMs += leaseMs;
        state = "back";
      }
      throw new UnreachableError("simulated: away");
    }
    const verdicts = await backend.flush(operations);
    if (state === "back" || operations[0]?.verb !== "begin") return verdicts;
    state = "away";
    throw new NotKnownError("simulated: the reply was lost");
  };
  const one = createStore({ ...backend, flush }, { purgeEveryMs: 0 });
  const two = createStore(memoryBackend(ledger), { purgeEveryMs: 0 });
  return { one, two };
}

test("a begin whose reply was lost has a valid lease when its handler starts, however long the store was unreachable", async () => {
  const leaseMs = 600;
  const { one, two } = twoProcesses(leaseMs);
  const seen: string[] = [];
  const first = await once(one, { key: k, leaseMs }, async () => {
    const other = await once(two, { key: k, leaseMs, onRunning: "return" }, () => "second effect");
    seen.push(other.status);
    return "first effect";
  });
  expect([first, seen]).toMatchObject([{ status: "executed", value: "first effect" }, ["running"]]);
  await Promise.all([one.close(), two.close()]);
});
