import { execFile, execFileSync } from "node:child_process";
import { join } from "node:path";
import type { Store } from "onceflow";
import { start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { onStoresInTurn } from "../kit/scene.js";
import { program } from "./process.js";

interface Step {
  readonly waitFor: string;
  /** Keys. */
  readonly send?: string;
  /** Columns and rows. */
  readonly resize?: readonly [number, number];
}

interface Session {
  readonly code: number;
  readonly out: string;
  readonly stepsLeft: number;
}

/** Runs the command on a pseudo-terminal, which Python's standard library has. */
function onTerminal(args: readonly string[], steps: readonly Step[], env: NodeJS.ProcessEnv = {}): Promise<Session> {
  const spec = { argv: [process.execPath, program, ...args], columns: 80, rows: 12, steps };
  const { NO_COLOR: _n, FORCE_COLOR: _f, ...plain } = process.env;
  const options = { env: { ...plain, TERM: "xterm-256color", ...env }, timeout: 55_000 };
  return new Promise((resolve, reject) => {
    execFile("python3", [join(import.meta.dirname, "pseudo-terminal.py"), JSON.stringify(spec)], options, (error, out) =>
      error === null ? resolve(JSON.parse(out) as Session) : reject(error),
    );
  });
}

const hasPython = (() => {
  try {
    execFileSync("python3", ["-c", "import pty, os; os.waitstatus_to_exitcode"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
})();

async function startPending(store: Store): Promise<void> {
  await start({ workflowId: "order" }, [1], { id: "o-1", store });
  await start({ workflowId: "order" }, [2], { id: "o-2", store });
}

const ctrlC = "\u0003";

onStoresInTurn("on a terminal", hasPython ? ["sqlite"] : [], (test) => {
  test("bulk actions ask first: anything but y does nothing", async ({ scene }) => {
    const store = await scene.open();
    await startPending(store);
    const line = ["runs", "cancel", "--all", "--workflow", "order", "--reason", "test", "--store", scene.url];
    const question = "Cancel these runs? [y/N] ";
    const [no, gone] = await Promise.all([
      onTerminal(line, [{ waitFor: question, send: "n\r" }]),
      onTerminal(["runs", "terminate", "o-1", "--reason", "test", "--store", scene.url], [{ waitFor: "[y/N] ", send: ctrlC }]),
    ]);
    expect(no).toMatchObject({
      stepsLeft: 0,
      code: 0,
      out: expect.stringMatching(/2 runs match: 2 pending\r\n[\s\S]*nothing was done/) as string,
    });
    expect(gone).toMatchObject({ stepsLeft: 0, out: expect.stringContaining("nothing was done") as string });
    expect(await store.runs.log({ limit: 10 })).toEqual([]);
    const yes = await onTerminal(line, [{ waitFor: question, send: "y\r" }]);
    expect(yes).toMatchObject({ code: 0, out: expect.stringContaining("cancel: 2 runs, 2 done") as string });
    expect(await store.runs.log({ limit: 10 })).toHaveLength(2);
  });

  test("watch redraws in place, follows the window, and Ctrl-C brings the cursor back", async ({ scene }) => {
    const store = await scene.open();
    await startPending(store);
    const line = ["runs", "watch", "--every", "200ms", "--store", scene.url];
    const watched = await onTerminal(line, [
      { waitFor: "o-1", resize: [40, 3] },
      { waitFor: "2 more runs", send: ctrlC },
    ]);
    expect(watched).toMatchObject({ stepsLeft: 0, code: 0 });
    const { out } = watched;
    expect(out.indexOf("\u001b[?1049h\u001b[?25l")).toBeGreaterThanOrEqual(0);
    // One clear of the rest of the screen in each frame, after its text: never an empty screen.
    expect(out).not.toContain("\u001b[2J");
    const closed = out.lastIndexOf("\u001b[?25h\u001b[?1049l");
    expect(closed).toBeGreaterThan(out.lastIndexOf("\u001b[H"));
    expect(out.slice(closed)).toContain("o-1");
    expect(out).toContain("\u001b[33mpending");
  });

  test("no colours with NO_COLOR", async ({ scene }) => {
    await startPending(await scene.open());
    const { out } = await onTerminal(["runs", "list", "--store", scene.url], [], { NO_COLOR: "1" });
    expect(out).toContain("pending");
    expect(out).not.toContain("\u001b[");
  });
});
