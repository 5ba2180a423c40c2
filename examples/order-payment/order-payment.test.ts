import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { poll } from "../../test/kit/poll.js";
import { childrenOf, isRunning } from "../../test/servers/process/processes.js";

const program = fileURLToPath(new URL("../../.build/examples/order-payment/main.js", import.meta.url));
/** Windows has no signals: a process cannot be stopped as by Ctrl-C, and its children cannot be listed. */
const hasSignals = process.platform !== "win32";

describe("the order-payment example", () => {
  let folder: string;
  let main: ChildProcess | undefined;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "onceflow-example-test-"));
  });

  afterEach(async () => {
    main?.kill("SIGKILL");
    await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  });

  function start(orders: number) {
    const env = { ...process.env, ORDERS: String(orders), NO_COLOR: "1", TMPDIR: folder, TEMP: folder, TMP: folder };
    const child = spawn(process.execPath, [program], { env, stdio: ["ignore", "pipe", "pipe"] });
    main = child;
    return { pid: child.pid ?? 0, child, ended: once(child, "exit"), stdout: text(child.stdout), stderr: text(child.stderr) };
  }

  /** Waits until the payment process and all workers are running. */
  async function processesOf(pid: number): Promise<number[]> {
    const all = async () => {
      const children = await childrenOf(pid);
      return children.length >= 5 ? children : undefined;
    };
    return await poll(20_000, all, () => "the example did not start its five processes");
  }

  test("charges = orders, although workers are killed", async () => {
    const { ended, stdout, stderr } = start(40);
    const [code] = await ended;
    const output = await stdout;
    expect(await stderr).toBe("");
    expect(code, output).toBe(0);

    const counted = (name: string) => Number(new RegExp(`│ ${name} +│ +(\\d+) │`).exec(output)?.[1]);
    expect(counted("orders")).toBe(40);
    expect(counted("charges")).toBe(40);
    expect(counted("unknown")).toBe(0);
    expect(counted("kills")).toBeGreaterThan(0);
    expect(counted("attempts")).toBeGreaterThanOrEqual(40 + counted("attempts died"));
    expect(counted("raw calls")).toBe(40 + counted("deduplicated"));
    expect(counted("raw calls")).toBeLessThanOrEqual(counted("attempts"));
    expect(counted("requests")).toBeGreaterThanOrEqual(40);
    expect(output).toContain("effectively once");
    expect(await readdir(folder)).toEqual([]);
  });

  test.skipIf(!hasSignals)("stops at Ctrl-C and leaves nothing behind", async () => {
    const { pid, child, ended, stderr } = start(300);
    const children = await processesOf(pid);
    child.kill("SIGINT");
    expect(await ended).toEqual([130, null]);
    expect(await stderr).toContain("Stopped by SIGINT");
    expect(children.filter(isRunning)).toEqual([]);
    expect(await readdir(folder)).toEqual([]);
  });

  test.skipIf(!hasSignals)("leaves no process behind when it is killed itself", async () => {
    const { pid, child, ended } = start(300);
    const children = await processesOf(pid);
    child.kill("SIGKILL");
    expect(await ended).toEqual([null, "SIGKILL"]);
    const allGone = () => (children.some(isRunning) ? undefined : true);
    await poll(10_000, allGone, () => `still running: ${children.filter(isRunning).join(", ")}`);
  });
});
