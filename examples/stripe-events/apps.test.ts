import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open } from "onceflow";
import { listRuns } from "onceflow/workflow/api";
import { describe, expect, onTestFinished, test } from "vitest";
import { poll } from "../../test/kit/poll.js";
import { runCommand } from "../../test/servers/process/command.js";
import { deliver, eventOf, programOf, startApp, startOtherSides, stopApp } from "./deliveries.js";
import { isFromStripe, signed } from "./signature.js";

/** The app on a free port with its own database, and the services that it calls. */
async function scene(example: string) {
  const folder = await mkdtemp(join(tmpdir(), "onceflow-stripe-"));
  const sides = await startOtherSides();
  const url = `sqlite:${join(folder, "onceflow.db")}`;
  const boot = async () => {
    const app = await startApp(programOf(example), { env: { ...sides.env, PORT: "0", ONCEFLOW_URL: url } });
    onTestFinished(() => stopApp(app, "SIGKILL"));
    return app;
  };
  onTestFinished(async () => {
    await sides.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  });
  return { sides, url, boot };
}

describe.each(["hono-stripe", "express-stripe"])("%s", (example) => {
  test("an event that is delivered three times is one run, one charge, one receipt", async () => {
    const { sides, url, boot } = await scene(example);
    const app = await boot();
    const event = eventOf("evt_1");
    const [one, two] = await Promise.all([deliver(app.url, event), deliver(app.url, event)]);
    expect([one, two]).toEqual(Array(2).fill({ status: 200, answer: { runId: "stripe-evt_1" } }));

    const store = await open(url);
    onTestFinished(() => store.close());
    const completed = async () => (await listRuns({ store, status: "completed" })).items.length === 1 || undefined;
    await poll(20_000, completed, () => "the run did not end");
    expect(await deliver(app.url, event)).toEqual(one);
    await stopApp(app);

    // Another process, another delivery.
    const next = await boot();
    expect(await deliver(next.url, event)).toEqual(one);
    expect(await deliver(next.url, event, { secret: "whsec_wrong" })).toMatchObject({ status: 400 });
    expect(await deliver(next.url, eventOf("evt_2"), { at: new Date(0) })).toMatchObject({ status: 400 });
    await stopApp(next);
    expect(next.child.exitCode).toBe(0);

    expect((await listRuns({ store })).items.map(({ id, status }) => [id, status])).toEqual([["stripe-evt_1", "completed"]]);
    for (const { effects } of [sides.charges, sides.receipts])
      expect(effects.keys().map((key) => [effects.rawCalls(key), effects.applied(key)])).toEqual([[1, 1]]);
  });
});

test("the demonstration prints one charge and one receipt", async () => {
  const demo = ["--import", "onceflow/register", "examples/stripe-events/demo.ts"];
  const printed = await runCommand(process.execPath, [...demo, "express-stripe"], { boundMs: 30_000 });
  const answer = '200 {"runId":"stripe-evt_1"}';
  expect(printed.trim().split("\n")).toEqual([
    `delivered at once      ${answer}`,
    `delivered at once      ${answer}`,
    `after kill and restart ${answer}`,
    "charges                1",
    "receipts               1",
  ]);
});

test("a signature covers the body, the time and the secret", () => {
  const now = new Date("2030-01-01T00:00:00Z");
  const header = signed("{}", "secret", now);
  const isValid = (over: object, at = now) => isFromStripe({ body: "{}", header, secret: "secret", ...over }, at);
  expect(isValid({})).toBe(true);
  expect(isValid({ header: `v0=x,${header},v1=other` })).toBe(true);
  expect(isValid({}, new Date(now.getTime() + 299_000))).toBe(true);
  for (const over of [
    { body: "{ }" },
    { secret: "other" },
    { header: undefined },
    { header: "" },
    { header: header.slice(0, -1) },
    { header: "t=1,v1=" },
  ])
    expect(isValid(over), JSON.stringify(over)).toBe(false);
  expect(isValid({}, new Date(now.getTime() + 301_000))).toBe(false);
  expect(isValid({ header: header.replace(/t=\d+/, "t=1893456001") })).toBe(false);
});
