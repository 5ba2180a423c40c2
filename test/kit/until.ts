import { vi } from "vitest";

/** Waits for a condition. A check that throws counts as "not yet". `what` names the condition in the error of a wait that timed out. */
export async function until(what: string, look: () => unknown, timeout = 60_000): Promise<void> {
  await vi.waitFor(
    async () => {
      if (!(await look())) throw new Error(`timed out after ${timeout} ms waiting until ${what}`);
    },
    { timeout, interval: 5 },
  );
}

/** Waits for turns of the event loop, until everything in this process that needs no I/O is done. */
export async function settled(turns = 20): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}
