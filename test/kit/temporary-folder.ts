import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** An empty folder, removed by `onEnd`: `onTestFinished` for one test, `afterAll` for all tests of a file. */
export function temporaryFolder(onEnd: (end: () => void) => void): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "onceflow-test-")));
  onEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
