import { mkdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll } from "vitest";

/** One for all test files of this run: their processes have the same parent. */
const lock = join(tmpdir(), `onceflow-heavy-${process.ppid}`);
const waitMsMax = 600_000;

/**
 * Test files that start processes by the dozen take turns. Side by side they would only wait for each other's processes
 * to boot, and everybody's times would be the machine's.
 */
export function takeTurns(): void {
  beforeAll(async () => {
    const until = Date.now() + waitMsMax;
    while (!taken()) {
      // Whoever held it may have been killed: better side by side than not at all.
      if (Date.now() > until) return;
      await delay(50);
    }
  }, waitMsMax + 10_000);
  afterAll(() => rmSync(lock, { recursive: true, force: true }));
}

function taken(): boolean {
  try {
    mkdirSync(lock);
    return true;
  } catch {
    return false;
  }
}
