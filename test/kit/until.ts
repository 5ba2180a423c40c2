import { vi } from "vitest";

/** Waits for a condition. A look that throws counts as "not yet". `what` completes the message of a wait that was in vain. */
export async function until(what: string, look: () => unknown, timeout = 60_000): Promise<void> {
  await vi.waitFor(
    async () => {
      if (!(await look())) throw new Error(`it did not come about within ${timeout} ms that ${what}`);
    },
    { timeout, interval: 5 },
  );
}

/** Turns of the event loop, so that what is under way in this process without I/O comes to rest. */
export async function settled(turns = 20): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}
