import { spawn } from "node:child_process";
import type { Store } from "onceflow";
import { start } from "onceflow/workflow/api";
import { afterEach, beforeEach, expect, vi } from "vitest";
import { onStoresInTurn } from "../kit/scene.js";
import { serveApi } from "./api-server.js";
import { command, json } from "./command.js";
import { program } from "./process.js";

beforeEach(() => void vi.stubEnv("ONCEFLOW_TOKEN", "t-1"));
afterEach(() => void vi.unstubAllEnvs());

async function startPending(store: Store, count: number): Promise<void> {
  const all = Array.from({ length: count }, (_, i) => start({ workflowId: "order" }, [i], { id: `o-${i}`, store }));
  await Promise.all(all);
}

async function cancelled(store: Store): Promise<string[]> {
  const log = await store.runs.log({ limit: 1000 });
  expect(new Set(log.map(({ action }) => action))).toEqual(new Set(["cancel"]));
  return log.map(({ subject }) => subject).sort();
}

/** Runs the command in a process of its own, and kills it when the text appears on standard error. Returns what it had printed there. */
function killAt(text: RegExp, args: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, [program, ...args], { stdio: ["ignore", "ignore", "pipe"] });
  let printed = "";
  child.stderr.setEncoding("utf8").on("data", (more: string) => {
    printed += more;
    if (text.test(printed)) child.kill("SIGKILL");
  });
  return new Promise((resolve, reject) => {
    child.on("close", (code) => (code === null ? resolve(printed) : reject(new Error(`ended with ${code}: ${printed}`))));
  });
}

onStoresInTurn("a bulk action of the command line", ["sqlite"], (test) => {
  test("first a count, then batches; it needs --yes, a reason, and --all", async ({ scene }) => {
    const store = await scene.open();
    await startPending(store, 5);
    const line = ["runs", "cancel", "--workflow", "order", "--store", scene.url];
    expect(await command(...line, "--reason", "test")).toMatchObject({
      code: 2,
      err: expect.stringMatching(/^ids: name runs, or use --all/) as string,
    });
    expect(await command(...line, "o-1", "--reason", "test")).toMatchObject({
      code: 2,
      err: expect.stringMatching(/^all: .*workflow.*require --all/) as string,
    });
    expect(await command(...line, "--all")).toMatchObject({ code: 2, err: expect.stringMatching(/^reason: /) as string });
    const asked = await command(...line, "--all", "--reason", "test");
    expect(asked).toMatchObject({ code: 2, out: "" });
    expect(asked.err).toMatch(/^5 runs match: 5 pending\nyes: this would cancel these runs\. There is no terminal/);
    const dry = await command(...line, "--all", "--reason", "test", "--dry-run");
    expect(dry).toMatchObject({ code: 0, out: "dry run, nothing was done; otherwise, of the first 5: 5 runs, 5 to do\n" });
    expect(await store.runs.log({ limit: 10 })).toEqual([]);
    const part = await command(...line, "--all", "--reason", "it's over", "--yes", "--limit", "2", "--action-id", "b-1");
    expect(part).toMatchObject({ code: 0, out: "cancel: 2 runs, 2 done\n" });
    const [, next = ""] = /to continue: onceflow (.*)/.exec(part.err) ?? [];
    expect(next).toContain("--action-id=b-1");
    expect(next).toContain(`'--reason=it'\\''s over'`);
    const [, cursor = ""] = /--cursor=(\S+)/.exec(next) ?? [];
    const rest = await json<{ done: number; ok: boolean }>(
      ...line,
      "--all",
      "--reason",
      "it's over",
      "--yes",
      "--action-id",
      "b-1",
      "--cursor",
      cursor,
    );
    expect(rest).toMatchObject({ ok: true, done: 3, actionId: "b-1" });
    expect(await cancelled(store)).toEqual(["o-0", "o-1", "o-2", "o-3", "o-4"]);
  });

  test("through a server; a run that is refused is named, with exit code 1", async ({ scene }) => {
    const store = await scene.open();
    await startPending(store, 3);
    const server = await serveApi(store);
    scene.onEnd(() => server.close());
    const where = ["--url", server.url];
    expect(await command("runs", "cancel", "--all", "--status", "pending", "--reason", "test", "--yes", ...where)).toMatchObject({
      code: 0,
      out: "cancel: 3 runs, 3 done\n",
    });
    expect(await cancelled(store)).toEqual(["o-0", "o-1", "o-2"]);
    expect(await command("runs", "delete", "o-0", "o-9", "--reason", "test", "--yes", ...where)).toMatchObject({
      code: 1,
      out: expect.stringMatching(/^o-0 {2}deleted/) as string,
      err: expect.stringContaining("o-9") as string,
    });
  });

  test("killed in the middle and continued with its action id, it acts on every run once", async ({ scene }) => {
    const store = await scene.open();
    await startPending(store, 240);
    const line = ["runs", "cancel", "--all", "--workflow", "order", "--reason", "test", "--yes", "--store", scene.url];
    const printed = await killAt(/\n100 runs, 100 done\n/, line);
    const [, id = ""] = /action id (\S+):/.exec(printed) ?? [];
    const before = (await cancelled(store)).length;
    expect(before).toBeGreaterThanOrEqual(100);
    expect(before).toBeLessThan(240);
    expect(await command(...line, "--action-id", id)).toMatchObject({ code: 0 });
    const all = await cancelled(store);
    expect([all.length, new Set(all).size]).toEqual([240, 240]);
  });
});
