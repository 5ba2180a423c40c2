import { expect, test } from "vitest";
import { UnreachableError } from "../errors/errors.js";
import { AttemptLeases } from "./attempt-leases.js";
import type { Begin } from "./operation.js";

const begin: Begin = {
  verb: "begin",
  scope: "",
  key: "k",
  owner: "me",
  fingerprint: null,
  effect: "idempotent",
  leaseMs: 90,
  retentionMs: null,
  horizonMs: 0,
  reconcileAfterMs: 0,
  over: null,
  progress: null,
};

test("if the store cannot be reached, the lease is lost when it expires there, counted in whole milliseconds", async () => {
  const at = { now: 1000.7 };
  let beat = (): void => {};
  const clock = {
    now: () => at.now,
    soon: (fn: () => void) => fn(),
    after: (_: number, fn: () => void) => {
      beat = fn;
      return () => {};
    },
  };
  let fail = (): void => {};
  const submit = () => new Promise<never>((_, reject) => (fail = () => reject(new UnreachableError("away"))));
  const keeper = new AttemptLeases({ store: "test", clock, submit, heartbeatThread: undefined });
  const lost: string[] = [];
  keeper.onLost("me", (why) => lost.push(why));
  keeper.note([{ operation: begin, answer: { kind: "started", attempt: 1 } as never, sentAt: at.now }]);
  const failsAt = async (asked: number, answered: number) => {
    at.now = asked;
    beat();
    at.now = answered;
    fail();
    await new Promise((go) => setImmediate(go));
  };
  // In the store it lasts until 1090.
  await failsAt(1030.8, 1050);
  expect(lost).toEqual([]);
  await failsAt(1060.9, 1090.1);
  expect(lost).toHaveLength(1);
});
