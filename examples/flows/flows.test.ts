import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { open } from "onceflow";
import { createRuntime } from "onceflow/graph";
import { expect, onTestFinished, test } from "vitest";
import { poll } from "../../test/kit/poll.js";
import { until } from "../../test/kit/until.js";
import { childrenOf, isRunning } from "../../test/servers/process/processes.js";
import { findPython } from "../../test/servers/sources/python.js";
import { nodes } from "./nodes.js";

const root = resolve(import.meta.dirname, "../..");
const shell = promisify(execFile);

/** The program that `npm start` runs after the build. */
const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: { start: string } };
const [, started = ""] = scripts.start.split(" && node ");

/** `npm start` after its build. */
async function start(env: NodeJS.ProcessEnv = {}) {
  const folder = mkdtempSync(join(tmpdir(), "onceflow-start-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const child = spawn(process.execPath, started.split(" "), {
    cwd: root,
    env: { ...process.env, ONCEFLOW_URL: `sqlite:${join(folder, "flows.db")}`, PORT: "0", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const printed = { out: "", err: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    printed.out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    printed.err += text;
  });
  const lines = await poll(
    60_000,
    () => (printed.out.includes("Ctrl-C") ? printed.out.split("\n").filter((line) => line.startsWith("curl")) : undefined),
    () => `npm start printed no commands: ${printed.out}${printed.err}`,
  );
  expect(lines.length).toBe(3);
  const run = async (line = "") => (await shell("sh", ["-c", line], { encoding: "utf8" })).stdout;
  /** Waits until the newest execution has completed, and returns the answer that says so. */
  const completed = () =>
    poll(
      60_000,
      async () => {
        const answer = await run(lines[2]);
        return answer.includes('"status":"completed"') ? answer : undefined;
      },
      () => `the execution did not complete: ${printed.out}${printed.err}`,
    );
  return { child, printed, lines, run, completed };
}

const python = await findPython();
const inTypeScript = "The node ship_parcel runs in TypeScript, because python3 was not found.";
const languages = [
  { language: "Python", env: {}, says: python.ok ? "The node ship_parcel runs in Python, at http://127.0.0.1:" : inTypeScript },
  // Node is started by its path.
  { language: "TypeScript", env: { PATH: "" }, says: inTypeScript },
];

test.for(languages)(
  "npm start prints three commands, and they have the announced effects; one node in $language",
  async ({ language, env, says }, { skip }) => {
    if (language === "Python" && !python.ok) return skip(python.reason);
    const { child, printed, lines, run, completed } = await start(env);
    expect(printed.out).toContain(says);
    const [first, again] = [await run(lines[0]), await run(lines[1])];
    expect(first).toMatch(/^HTTP\/1.1 202 /);
    expect(again).toMatch(/^HTTP\/1.1 200 /);
    expect(again).toMatch(/idempotent-replayed: true/i);
    const shown = await completed();
    const id = /"executionId":"(ex_\w+)"/.exec(first)?.[1];
    expect(JSON.parse(shown)).toMatchObject({ executions: [{ id, key: "order-1", dead: 0 }] });
    // At the provider: one call for each effect.
    expect(printed.err.match(/^provider.*$/gm)).toEqual([
      "provider      charge o-1:charge: done (call 1)",
      "provider      ship o-1:ship: done (call 1)",
    ]);
    // The first screen shows no warnings.
    expect(printed.err.replace(/^provider.*\n/gm, "")).toBe("");
    expect(printed.out).toMatch(/^Flows run on sqlite/);
    const children = await childrenOf(child.pid ?? 0);
    expect(children.length).toBe(language === "Python" ? 1 : 0);
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([0, null]);
    expect([child.pid ?? 0, ...children].filter(isRunning)).toEqual([]);
  },
);

test("the Python node is started again when it is killed, and ends when npm start is killed", async ({ skip }) => {
  if (!python.ok) return skip(python.reason);
  const { child, printed, lines, run, completed } = await start();
  const pythonOf = async () => (await childrenOf(child.pid ?? 0))[0];
  const killed = (await pythonOf()) ?? 0;
  process.kill(killed, "SIGKILL");
  // The delivery to the dead server fails, and is retried until the next one is there.
  await run(lines[0]);
  await completed();
  expect(printed.err.match(/^provider +ship.*$/gm)).toEqual(["provider      ship o-1:ship: done (call 1)"]);
  const next = (await pythonOf()) ?? 0;
  expect([next > 0, next !== killed]).toEqual([true, true]);
  child.kill("SIGKILL");
  await until("the Python process has noticed", () => !isRunning(next));
});

test("every example flow runs with these nodes, and has each effect once", async () => {
  const store = await open("memory:");
  onTestFinished(() => store.close());
  const documents = readdirSync(import.meta.dirname)
    .filter((name) => name.endsWith(".flowdsl.yaml"))
    .map((name) => join(import.meta.dirname, name));
  const runtime = await createRuntime({ store, documents, nodes, substitutes: ["stream", "store"] });
  const address = { street: "Main Street 1", country: "de" };
  const order = { orderId: "t-1", total: 42, lines: [{ article: "tea", count: 2 }] };
  const email = { from: "ann@example.org", body: "" };
  const outcomeOf = async (flow: string, payload: Record<string, unknown>) => {
    const { executionId = "" } = await runtime.trigger(flow, undefined, payload);
    const { status, outputs } = await runtime.wait(executionId);
    return [status, ...outputs.map(({ node, data }) => [node, data["id"] ?? data["charges"]])];
  };
  expect(await outcomeOf("order_fulfilment", { ...order, address })).toEqual(["completed", ["announce", 1]]);
  // Already charged; the carrier rejects the parcel.
  expect(await outcomeOf("order_fulfilment", { ...order, orderId: "t-2", address: { ...address, country: "xx" } })).toEqual(["dead"]);
  expect(await outcomeOf("order_fulfilment", order)).toEqual(["completed"]);
  const [letter] = await runtime.deadLetters();
  expect(letter).toMatchObject({ key: "t-2:ship", error: { message: "no carrier delivers to this country" } });
  expect(await outcomeOf("email_triage", { ...email, messageId: "m-1", subject: "The database is down" })).toEqual([
    "completed",
    ["SendSmsAlert", "sms-m-1-sms-alert"],
  ]);
  expect(await outcomeOf("email_triage", { ...email, messageId: "m-2", subject: "A question" })).toEqual([
    "completed",
    ["CreateTicket", "ticket-m-2-create_ticket"],
  ]);
  expect(await outcomeOf("email_triage", { ...email, messageId: "m-3", subject: "You won the lottery" })).toEqual(["completed"]);
  const text = "First piece.\n\nSecond piece.";
  const kept = await outcomeOf("document_summary", { documentId: "d-1", text });
  expect(kept.slice(1).sort()).toEqual([
    ["KeepSummary", "keep-d-1-0-keep"],
    ["KeepSummary", "keep-d-1-1-keep"],
  ]);
  // The same document again: every piece is a duplicate.
  expect(await outcomeOf("document_summary", { documentId: "d-1", text })).toEqual(["completed"]);
});
