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
import { childrenOf, isRunning } from "../../test/servers/process/processes.js";
import { nodes } from "./nodes.js";

const root = resolve(import.meta.dirname, "../..");
const shell = promisify(execFile);

/** The program that `npm start` runs after the build. */
const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: { start: string } };
const [, started = ""] = scripts.start.split(" && node ");

test("npm start prints three lines, and they do what it says", { timeout: 120_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "onceflow-start-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const env = { ...process.env, ONCEFLOW_URL: `sqlite:${join(folder, "flows.db")}`, PORT: "0" };
  const child = spawn(process.execPath, started.split(" "), { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  let out = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  let err = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  const lines = await poll(
    60_000,
    () => (out.includes("Ctrl-C") ? out.split("\n").filter((line) => line.startsWith("curl")) : undefined),
    () => `it does not start: ${out}${err}`,
  );
  expect(lines.length).toBe(3);
  const run = async (line = "") => (await shell("sh", ["-c", line], { encoding: "utf8" })).stdout;
  const [first, again] = [await run(lines[0]), await run(lines[1])];
  expect(first).toMatch(/^HTTP\/1.1 202 /);
  expect(again).toMatch(/^HTTP\/1.1 200 /);
  expect(again).toMatch(/idempotent-replayed: true/i);
  const completed = async () => {
    const answer = await run(lines[2]);
    return answer.includes('"status":"completed"') ? answer : undefined;
  };
  const shown = await poll(30_000, completed, () => `it does not end: ${out}${err}`);
  const id = /"executionId":"(ex_\w+)"/.exec(first)?.[1];
  expect(JSON.parse(shown)).toMatchObject({ executions: [{ id, key: "order-1", dead: 0 }] });
  // At the provider: one call each.
  expect(err.match(/^provider.*$/gm)).toEqual([
    "provider      charge o-1:charge: done (call 1)",
    "provider      ship o-1:ship: done (call 1)",
  ]);
  // The first screen shows no warnings.
  expect(err.replace(/^provider.*\n/gm, "")).toBe("");
  expect(out).toMatch(/^Flows run on sqlite/);
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
  expect([isRunning(child.pid ?? 0), await childrenOf(child.pid ?? 0)]).toEqual([false, []]);
});

test("every flow here runs with these nodes, and has its effects once", async () => {
  const store = await open("memory:");
  onTestFinished(() => store.close());
  const documents = readdirSync(import.meta.dirname)
    .filter((name) => name.endsWith(".flowdsl.yaml"))
    .map((name) => join(import.meta.dirname, name));
  const runtime = await createRuntime({ store, documents, nodes, substitutes: ["stream", "store"] });
  const address = { street: "Main Street 1", country: "de" };
  const order = { orderId: "t-1", total: 42, lines: [{ article: "tea", count: 2 }] };
  const email = { from: "ann@example.org", body: "" };
  const ends = async (flow: string, payload: Record<string, unknown>) => {
    const { executionId = "" } = await runtime.trigger(flow, undefined, payload);
    const { status, outputs } = await runtime.wait(executionId);
    return [status, ...outputs.map(({ node, data }) => [node, data["id"] ?? data["charges"]])];
  };
  expect(await ends("order_fulfilment", { ...order, address })).toEqual(["completed", ["announce", 1]]);
  // Already charged; the carrier rejects the parcel.
  expect(await ends("order_fulfilment", { ...order, orderId: "t-2", address: { ...address, country: "xx" } })).toEqual(["dead"]);
  expect(await ends("order_fulfilment", order)).toEqual(["completed"]);
  const [letter] = await runtime.deadLetters();
  expect(letter).toMatchObject({ key: "t-2:ship", error: { message: "no carrier goes there" } });
  expect(await ends("email_triage", { ...email, messageId: "m-1", subject: "The database is down" })).toEqual([
    "completed",
    ["SendSmsAlert", "sms-m-1-sms-alert"],
  ]);
  expect(await ends("email_triage", { ...email, messageId: "m-2", subject: "A question" })).toEqual([
    "completed",
    ["CreateTicket", "ticket-m-2-create_ticket"],
  ]);
  expect(await ends("email_triage", { ...email, messageId: "m-3", subject: "You won the lottery" })).toEqual(["completed"]);
  const text = "First piece.\n\nSecond piece.";
  const kept = await ends("document_summary", { documentId: "d-1", text });
  expect(kept.slice(1).sort()).toEqual([
    ["KeepSummary", "keep-d-1-0-keep"],
    ["KeepSummary", "keep-d-1-1-keep"],
  ]);
  // The same document again: every piece is a duplicate.
  expect(await ends("document_summary", { documentId: "d-1", text })).toEqual(["completed"]);
});
