import { mkdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll } from "vitest";

/** One lock for all test files of this run: their processes have the same parent. */
const lock = join(tmpdir(), `onceflow-heavy-${process.ppid}`);
const waitMsMax = 600_000;

/**
 * Test files that start dozens of processes take turns. In parallel they would only wait for each other's processes
 * to start, and all their times would depend on the machine.
 */
export function takeTurns(): void {
  beforeAll(async () => {
    const until = Date.now() + waitMsMax;
    while (!takeLock()) {
      // The process that held the lock may have been killed: running in parallel is better than not running.
      if (Date.now() > until) return;
      await delay(50);
    }
  }, waitMsMax + 10_000);
  afterAll(() => rmSync(lock, { recursive: true, force: true }));
}

function takeLock(): boolean {
  try {
    mkdirSync(lock);
    return true;
  } catch {
    return false;
  }
}
