import { execFile as execFileWithCallback } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { open } from "onceflow";
import { listRuns } from "onceflow/workflow/api";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { poll } from "../../test/kit/poll.js";
import { INSTALL_BOUND_MS, runCommand } from "../../test/servers/process/command.js";
import { type App, deliver, eventOf, startApp, startOtherSides, stopApp } from "./deliveries.js";

const execFile = promisify(execFileWithCallback);
const root = resolve(import.meta.dirname, "../..");
const example = join(root, "examples/nextjs-stripe");

/** As a user would run it: a copy in another folder, with the dependencies of its package.json and the packed onceflow. */
async function installed(folder: string): Promise<string> {
  const app = join(folder, "nextjs-stripe");
  await cp(example, app, { recursive: true, filter: (from) => !/\/(node_modules|\.next|\.onceflow)$/.test(from) });
  const inRoot = { boundMs: 120_000, cwd: root };
  await runCommand("npm", ["pack", "--ignore-scripts", "--pack-destination", folder], inRoot);
  const [tarball = ""] = (await readdir(folder)).filter((file) => file.endsWith(".tgz"));
  const manifest = JSON.parse(await readFile(join(app, "package.json"), "utf8")) as { dependencies: Record<string, string> };
  manifest.dependencies["onceflow"] = `file:../${tarball}`;
  await writeFile(join(app, "package.json"), JSON.stringify(manifest));
  await runCommand("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline"], { boundMs: INSTALL_BOUND_MS, cwd: app });
  return app;
}

const env = { NEXT_TELEMETRY_DISABLED: "1", NODE_ENV: "production" };
const timeout = 1_200_000;
let [folder, cwd, next] = ["", "", ""];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "onceflow-nextjs-"));
  cwd = await installed(folder);
  next = join(cwd, "node_modules/next/dist/bin/next");
}, timeout);

afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 }));

async function build(flag: string): Promise<string> {
  return await runCommand(process.execPath, [next, "build", flag], { boundMs: INSTALL_BOUND_MS, cwd, env: { ...process.env, ...env } });
}

test.each(["turbopack", "webpack"])(
  "%s: an event that is delivered three times is one run, one charge, one receipt",
  { timeout },
  async (bundler) => {
    await build(`--${bundler}`);
    const sides = await startOtherSides();
    onTestFinished(() => sides.close());
    const url = `sqlite:${join(folder, `${bundler}.db`)}`;
    const boot = async (): Promise<App> => {
      const args = [next, "start", "-H", "127.0.0.1", "-p", "0"];
      const app = await startApp(args, { cwd, env: { ...env, ...sides.env, ONCEFLOW_URL: url } });
      onTestFinished(() => stopApp(app, "SIGKILL"));
      return app;
    };
    const app = await boot();
    const event = eventOf("evt_1");
    const [one, two] = await Promise.all([deliver(app.url, event), deliver(app.url, event)]);
    expect([one, two]).toEqual(Array(2).fill({ status: 200, answer: { runId: "stripe-evt_1" } }));
    const store = await open(url);
    onTestFinished(() => store.close());
    const completed = async () => (await listRuns({ store, status: "completed" })).items.length === 1 || undefined;
    await poll(20_000, completed, () => "the run did not end");
    expect(await deliver(app.url, event)).toEqual(one);
    expect(await deliver(app.url, event, { secret: "whsec_wrong" })).toMatchObject({ status: 400 });
    await stopApp(app, "SIGKILL");

    const again = await boot();
    expect(await deliver(again.url, event)).toEqual(one);
    await stopApp(again);
    expect((await listRuns({ store })).items.map(({ id, status }) => [id, status])).toEqual([["stripe-evt_1", "completed"]]);
    for (const { effects } of [sides.charges, sides.receipts])
      expect(effects.keys().map((key) => [effects.rawCalls(key), effects.applied(key)])).toEqual([[1, 1]]);
  },
);

test.each(["turbopack", "webpack"])(
  "%s: a directive in a wrong place fails the build, with its file and line",
  { timeout },
  async (bundler) => {
    const file = join(cwd, "workflows/process-stripe-event.ts");
    const text = await readFile(file, "utf8");
    onTestFinished(() => writeFile(file, text));
    await writeFile(file, `${text}\nexport function late() {\n  "use step";\n}\n`);
    const line = text.split("\n").length + 1;
    const built = execFile(process.execPath, [next, "build", `--${bundler}`], {
      cwd,
      env: { ...process.env, ...env },
      timeout: INSTALL_BOUND_MS,
    });
    const failure = await built.then(
      () => "the build succeeded",
      ({ stdout, stderr }: { stdout: string; stderr: string }) => stdout + stderr,
    );
    expect(failure).toMatch(new RegExp(`process-stripe-event\\.ts:${line}:\\d+: only an async function can be a step`));
  },
);
