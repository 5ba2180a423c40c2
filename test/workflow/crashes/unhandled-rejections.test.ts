import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { sample } from "../../kit/effort.js";
import { acquire } from "../../servers/acquire.js";

const program = fileURLToPath(new URL("../../../.build/test/workflow/programs/unhandled-rejections.js", import.meta.url));

interface Ended {
  readonly code: number | string | null | undefined;
  readonly out: string;
  readonly err: string;
}

function run(node: string, flags: readonly string[], args: readonly string[] = []): Promise<Ended> {
  const { NODE_OPTIONS: _, ...env } = process.env;
  return new Promise((resolve) => {
    execFile(node, [...flags, program, ...args], { env, timeout: 60_000 }, (error, out, err) => {
      resolve({ code: error ? (error.code ?? error.signal) : 0, out, err });
    });
  });
}

const nodes = {
  "this Node": async () => ({ ok: true, running: { path: process.execPath, stop: async () => {} } }) as const,
  "Node 22": () => acquire("node22"),
  "Node 24": () => acquire("node24"),
};

describe.each(sample(Object.keys(nodes) as (keyof typeof nodes)[], 3))("unhandled rejections, %s", async (name) => {
  const acquired = await nodes[name]();
  afterAll(async () => {
    if (acquired.ok) await acquired.running.stop();
  });
  const node = acquired.ok ? acquired.running.path : "";

  describe.skipIf(!acquired.ok)(acquired.ok ? "with each flag" : acquired.reason, () => {
    const flags = [undefined, "throw", "strict", "warn", "none", "warn-with-error-code"];
    const flag = (mode: string | undefined) => (mode === undefined ? [] : [`--unhandled-rejections=${mode}`]);

    test.each(sample(flags, 3))("of a run do not end the process: %s", async (mode) => {
      const { code, out } = await run(node, flag(mode));
      expect([code, out]).toEqual([0, expect.stringContaining("goes on")]);
      expect(out).toContain('caught: step "fails" failed');
      expect(out).toMatch(/warning: run "o-1" ended without awaiting .*never awaited, at .*unhandled-rejections\.[jt]s:\d+/);
    });

    test("of a promise that a step got from a client outside of all runs do not end the process", async () => {
      const { code, out } = await run(node, [], ["none", "no", "shared"]);
      expect([code, out]).toEqual([0, expect.stringContaining("goes on")]);
      expect(out).toContain("caught: connection lost");
    });

    test("of a run are not passed to a listener of the application; rejections of other code are", async () => {
      const { code, out } = await run(node, [], ["other", "listener"]);
      expect(code).toBe(0);
      expect(out.match(/listener: .*/g)).toEqual(["listener: of other code"]);
    });

    test.each(sample([undefined, "throw", "strict"], 3))("of other code end the process as Node does: %s", async (mode) => {
      const { code, out, err } = await run(node, flag(mode), ["other"]);
      expect(code).toBe(1);
      expect(out).toContain("monitor: of other code (unhandledRejection)");
      expect(out).not.toContain("goes on");
      expect(err).toContain("Error: of other code");
    });

    test("of other code are a warning if the flag says so", async () => {
      const { code, err } = await run(node, flag("warn"), ["other"]);
      expect([code, err]).toEqual([0, expect.stringContaining("UnhandledPromiseRejectionWarning: Error: of other code")]);
    });
  });
});
