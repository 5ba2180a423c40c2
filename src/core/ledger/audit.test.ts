import { expect, test, vi } from "vitest";
import type { Answered } from "../store/commit/group-commit.js";
import { systemClock } from "../work/clock.js";
import { AuditLog } from "./audit.js";

const refused = (key: string): Answered => ({
  operation: {
    verb: "begin",
    scope: "",
    key,
    owner: "me",
    fingerprint: null,
    effect: "keyed",
    leaseMs: 1000,
    retentionMs: null,
    horizonMs: 0,
    reconcileAfterMs: 0,
    over: null,
    progress: null,
  },
  answer: { kind: "mismatch", attempt: 1 },
  sentAt: 0,
});

test("a store that cannot write the log is not called in a loop, and close returns", async () => {
  const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  const written: string[] = [];
  let calls = 0;
  let failing = true;
  const audit = async (entries: readonly { readonly key: string }[]) => {
    calls += 1;
    if (failing) throw new Error("disk full");
    written.push(...entries.map(({ key }) => key));
  };
  const log = new AuditLog({ name: "broken", audit }, systemClock);
  log.note([refused("a")]);
  await expect.poll(() => calls).toBe(1);
  for (let turn = 0; turn < 50; turn++) await new Promise((go) => setImmediate(go));
  expect(calls).toBe(1);
  await log.close();
  expect(calls).toBe(2);

  failing = false;
  log.note([refused("b")]);
  await log.close();
  expect(written).toEqual(["a", "b"]);
  warn.mockRestore();
});
