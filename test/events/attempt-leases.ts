import { UnreachableError } from "onceflow";
import { AttemptLeases } from "../../src/core/ledger/attempt-leases.js";
import type { Begin } from "../../src/core/ledger/operation.js";

const begin: Begin = {
  ...{ verb: "begin", scope: "", key: "k", owner: "me", fingerprint: null, effect: "idempotent", leaseMs: 90 },
  ...{ retentionMs: null, horizonMs: 0, reconcileAfterMs: 0, over: null, progress: null },
};

/** The leases of a process whose store cannot be reached. */
export function attemptLeases(): { readonly expire: () => Promise<void> } {
  let now = 1000;
  let beat = (): void => {};
  const clock = {
    now: () => now,
    soon: (fn: () => void) => fn(),
    after: (_: number, fn: () => void) => {
      beat = fn;
      return () => {};
    },
  };
  const submit = () => Promise.reject(new UnreachableError("away"));
  const leases = new AttemptLeases({ store: "test", clock, submit, heartbeatThread: undefined });
  leases.note([{ operation: begin, answer: { kind: "started", attempt: 1 } as never, sentAt: now }]);
  const beatAt = async (at: number) => {
    now = at;
    beat();
    await new Promise((go) => setImmediate(go));
  };
  return {
    async expire() {
      await beatAt(1040);
      await beatAt(1095);
      await beatAt(1200);
    },
  };
}
