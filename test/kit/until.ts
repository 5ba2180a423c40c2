import { vi } from "vitest";

/** Waits for a condition. A check that throws counts as "not yet". `what` completes the message of a wait that timed out. */
export async function until(what: string, look: () => unknown, timeout = 60_000): Promise<void> {
  await vi.waitFor(
    async () => {
      if (!(await look())) throw new Error(`it did not come about within ${timeout} ms that ${what}`);
    },
    { timeout, interval: 5 },
  );
}

/** Waits for turns of the event loop, until everything in this process that needs no I/O is done. */
export async function settled(turns = 20): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}
