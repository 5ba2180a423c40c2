import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatWithOptions } from "node:util";
import { prelude } from "./prelude.js";

/** What a block printed, line by line, or why it could not be run to its end. */
export interface Ran {
  readonly block: string;
  readonly lines: readonly string[];
  readonly error?: string;
}

/** A program: runs each block that it is given, in a folder of its own, and sends what it printed to its parent. */
async function run(block: string): Promise<Ran> {
  const folder = await mkdtemp(join(tmpdir(), "onceflow-docs-"));
  process.chdir(folder);
  const given = await prelude();
  Object.assign(globalThis, given);
  const lines: string[] = [];
  console.log = (...values: unknown[]) => {
    lines.push(...formatWithOptions({ breakLength: Number.POSITIVE_INFINITY, compact: 100 }, ...(values as [unknown])).split("\n"));
  };
  try {
    await import(block);
    return { block, lines };
  } catch (error) {
    return { block, lines, error: String(error instanceof Error ? error.stack : error) };
  } finally {
    await given.store.close();
    process.chdir(tmpdir());
    await rm(folder, { recursive: true, force: true });
  }
}

// A block that never ends leaves an event loop with nothing to do: the process ends, and the parent says which it was.
for (const block of process.argv.slice(2)) process.send?.(await run(block));
process.disconnect?.();
process.exit();
