import { type ChildProcess, spawn } from "node:child_process";
import { once as emitted } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { key as keys, once } from "onceflow";
import { createRuntime, NodeError, type NodeInput } from "onceflow/graph";
import { step, work, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { expect, onTestFinished, test, vi } from "vitest";
import { ordersDocument } from "../graph/orders-document.js";
import { appFolder } from "../kit/app-folder.js";
import { sample } from "../kit/effort.js";
import { poll } from "../kit/poll.js";
import { durableStores, onStoresInTurn, type Scene } from "../kit/scene.js";
import { isRunning } from "../servers/process/processes.js";
import { onceflow, program } from "./process.js";

// These tests start dozens of processes, which is slow on a busy machine.
vi.setConfig({ testTimeout: 240_000 });

/** Charges are counted in a file, which outlives the process that charges. */
const nodes = `
import { appendFileSync } from "node:fs";
import { NodeError, type NodeInput } from "onceflow/graph";

export const nodes = {
  charge(input: NodeInput): void | Promise<void> {
    const order = input.packet("in");
    if (order.getNumber("amount") > 9000) throw new NodeError("PERMANENT", "declined\\u001b[31m by the bank");
    if (order.getNumber("amount") === 2) console.log("charging two");
    appendFileSync("charges.txt", \`\${input.context.idempotencyKey}\\n\`);
    if (order.getString("orderId") === "stuck" && input.context.attempt === 1) return new Promise(() => {});
  },
};
`;

const shop = () => appFolder({ "orders.flowdsl.yaml": ordersDocument, "nodes.ts": nodes });
const chargesIn = (folder: string) =>
  existsSync(join(folder, "charges.txt")) ? readFileSync(join(folder, "charges.txt"), "utf8").trim().split("\n") : [];
const order = (orderId: string, amount = 1) => JSON.stringify({ orderId, amount });

/** The arguments before and after a command's own, for the flows of a folder on a store. */
function on({ url }: Pick<Scene, "url">) {
  const store = ["--store", url];
  return { store, runNodes: ["run", ".", "--nodes", "nodes.ts", ...store], file: ["--file", ".", ...store] };
}

const beside = { url: "sqlite:flows.db" };

/** A process that runs the flows and serves the API until the test ends. */
async function running(folder: string, scene: Pick<Scene, "url">, more: readonly string[] = []) {
  const child: ChildProcess = spawn(process.execPath, [program, ...on(scene).runNodes, "--port", "0", ...more], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let out = "";
  let err = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  const url = await poll(
    30_000,
    () => /listening on (\S+)/.exec(err)?.[1],
    () => `it does not listen: ${err}`,
  );
  return { child, url, out: () => out, ended: emitted(child, "exit") };
}

onStoresInTurn("run", sample(durableStores, 2), (test) => {
  test("serves the API, delivers triggers of other processes, and stops on a signal", async ({ scene }) => {
    const folder = shop();
    const { file } = on(scene);
    const { child, url, out, ended } = await running(folder, scene, ["--json"]);
    const [byUrl, byStore] = await Promise.all([
      onceflow(["trigger", "orders", order("o-1"), "--url", url, "--key", "order 1", "--wait"], folder),
      onceflow(["trigger", "orders", order("o-2"), ...file, "--wait", "--json"], folder),
    ]);
    expect(byUrl).toMatchObject({ code: 0, out: expect.stringMatching(/^started {2}ex_\w+ {2}completed\n$/) as string });
    expect([byStore.code, JSON.parse(byStore.out)]).toEqual([
      0,
      { executionId: expect.any(String) as string, status: "started", execution: "completed" },
    ]);
    const [again, other, wrong] = await Promise.all([
      onceflow(["trigger", "orders", order("o-1"), "--url", url, "--key", "order 1"], folder),
      onceflow(["trigger", "orders", order("o-9"), "--url", url, "--key", "order 1"], folder),
      onceflow(["trigger", "nothing", "--url", url], folder),
    ]);
    expect(again).toMatchObject({ code: 0, out: expect.stringMatching(/^duplicate {2}ex_/) as string });
    expect(other).toMatchObject({ code: 2, err: expect.stringContaining("answered 422") as string });
    expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining("Flow not found") as string });
    child.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
    expect(isRunning(child.pid ?? 0)).toBe(false);
    const events = out()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { type: string });
    expect(events.filter(({ type }) => type === "ended").length).toBe(2);
    expect(chargesIn(folder).sort()).toEqual(["o-1-charge", "o-2-charge"]);
  });
});

onStoresInTurn("the commands that list and show", sample(durableStores, 2), (test) => {
  test("executions and dead letters, retried and discarded", async ({ scene }) => {
    const folder = shop();
    const { store } = on(scene);
    const charge = (input: NodeInput): void => {
      if (input.packet("in").getNumber("amount") > 9000) throw new NodeError("PERMANENT", "declined\u001b[31m by the bank");
    };
    const runtime = await createRuntime({
      store: await scene.open(),
      documents: [{ text: ordersDocument }],
      nodes: { charge },
      history: "full",
    });
    for (const orderId of ["o-1", "o-2", "o-3"]) {
      const payload = { orderId, amount: orderId === "o-1" ? 1 : 10_000 };
      const { executionId = "" } = await runtime.trigger("orders", undefined, payload, { key: orderId });
      await runtime.wait(executionId);
    }
    await runtime.stop();
    const look = (...args: string[]) => onceflow([...args, ...store], folder);
    const [list, dead, json, letters, lettersJson] = await Promise.all([
      look("executions"),
      look("executions", "--status", "dead", "--flow", "orders"),
      look("executions", "--json", "--limit", "1"),
      look("dead-letters", "list"),
      look("dead-letters", "list", "--json", "--queue", "unpaid"),
    ]);
    expect(list.out.split("\n")[0]).toMatch(/^ID +FLOW +STATUS +OPEN +DEAD +CREATED +ENDED +KEY$/);
    expect([list.out.trim().split("\n").length, dead.out.trim().split("\n").length]).toEqual([4, 3]);
    const [newest] = JSON.parse(json.out) as { id: string; status: string }[];
    expect(newest?.status).toBe("dead");
    const column = list.out.split("\n")[0]?.indexOf("STATUS") ?? 0;
    for (const line of list.out.trim().split("\n").slice(1)) expect(line.slice(column)).toMatch(/^(completed|dead) /);
    expect(letters.out).not.toContain("\u001b");
    const ids = (JSON.parse(lettersJson.out) as { id: string }[]).map(({ id }) => id);
    expect(ids.length).toBe(2);
    const [one, detailed, detailedJson, shown, absent, retried, reinjected] = await Promise.all([
      look("executions", newest?.id ?? ""),
      look("executions", newest?.id ?? "", "--values"),
      look("executions", newest?.id ?? "", "--values", "--json"),
      look("dead-letters", "show", ids[0] ?? ""),
      look("executions", "ex_zzzz"),
      look("dead-letters", "retry", ids[1] ?? "", "pk_zzzz"),
      // The deprecated name of `retry`.
      look("dead-letters", "reinject", "pk_zzzz", "--json"),
    ]);
    expect(one.out).toMatch(/^id +ex_\w+\n/);
    expect(one.out).toContain('input       {"orderId":"o-3","amount":10000}');
    expect(one.out).toMatch(/^NODE +ATTEMPT +TIME +MS +VERDICT +EDGE +PACKET +ERROR$/m);
    expect(one.out).toMatch(/^Charge +1 +\S+ \S+ +\d+ +dead +\S+ +pk_\w+ +PERMANENT: declined/m);
    expect(one.out).not.toContain("input in");
    expect(detailed.out).toMatch(/^pk_\w+ at Charge, attempt 1\ninput in +\{"orderId":"o-3","amount":10000\}$/m);
    expect(detailedJson.out).toContain('"verdict": "dead"');
    expect(await look("executions", "--values")).toMatchObject({
      code: 2,
      err: expect.stringContaining("--values requires the id") as string,
    });
    expect(shown.out).toMatch(/key +o-\d-charge\n/);
    expect(shown.out).toContain("ATTEMPT  AT");
    expect(absent).toMatchObject({ code: 1, out: "", err: "execution ex_zzzz not found\n" });
    expect(retried).toMatchObject({ code: 1, out: "1 dead letter retried; not found: pk_zzzz\n" });
    expect([reinjected.code, JSON.parse(reinjected.out)]).toEqual([1, { ok: false, reinjected: [], gone: ["pk_zzzz"] }]);
    expect(await look("dead-letters", "discard", "--all")).toMatchObject({
      code: 2,
      err: expect.stringContaining("requires --flow") as string,
    });
    expect(await look("dead-letters", "discard", "--all", "--flow", "orders", "--reason", "test orders", "--yes", "--json")).toMatchObject({
      code: 0,
      out: expect.stringContaining(ids[0] ?? "?") as string,
    });
    expect(JSON.parse((await look("dead-letters", "list", "--json")).out)).toEqual([]);
    expect(JSON.parse((await look("executions", "--json", "--status", "running")).out)).toMatchObject([{ key: "o-2" }]);
  });

  test("runs of workflows, and keys of the ledger", async ({ scene }) => {
    const folder = shop();
    const { store } = on(scene);
    const kept = await scene.open();
    const charge = step("charge", async (amount: number) => amount);
    const pay = workflow("pay", async (amount: number) => await charge(amount));
    await work(kept, { workflows: [pay] });
    await (await start(pay, [5], { id: "pay:1", store: kept })).returnValue;
    await once(kept, { scope: "shop", key: keys.of("k-1") }, () => ({ secret: "hunter2" }));
    await kept.close();
    const look = (...args: string[]) => onceflow([...args, ...store], folder);
    const [runs, journal, noRun, listed, key, value, noKey, none] = await Promise.all([
      look("runs", "--workflow", "pay"),
      look("runs", "pay:1", "--json"),
      look("runs", "pay:2"),
      look("keys", "shop", "--state", "completed", "--prefix", "k"),
      look("keys", "shop", "k-1"),
      look("keys", "shop", "k-1", "--value", "--json"),
      look("keys", "shop", "k-2"),
      look("keys", "--state", "unknown", "--json"),
    ]);
    expect(runs.out).toMatch(/^ID +WORKFLOW +STATUS .*\npay:1 +pay +completed /);
    const { journal: items, status } = JSON.parse(journal.out) as { status: string; journal: { type: string; attempt?: number }[] };
    expect([status, items.find(({ type }) => type === "done")?.attempt]).toEqual(["completed", 1]);
    expect(noRun).toMatchObject({ code: 1, err: "run pay:2 not found\n" });
    expect(listed.out).toMatch(/\nshop +k-1 +completed +1 /);
    expect(key.out).toMatch(/state +completed\n/);
    expect(key.out).toMatch(/ATTEMPT +STARTED +ENDED +VERDICT .*\n1 .* completed /);
    expect(key.out).not.toContain("hunter2");
    expect(JSON.parse(value.out)).toMatchObject({ value: { secret: "hunter2" } });
    expect(noKey).toMatchObject({ code: 1, out: "" });
    expect(JSON.parse(none.out)).toEqual({ items: [] });
  });
});

test("run --trigger sends one order: its outcome is the exit code, and its key is used once", async () => {
  const folder = shop();
  const { runNodes } = on(beside);
  const one = await onceflow([...runNodes, "--trigger", order("o-1"), "--key", "order-1", "--wait"], folder);
  expect(one).toMatchObject({ code: 0, err: "1 flow on sqlite: orders\n" });
  const lines = one.out.trim().split("\n");
  expect(lines.map((line) => line.split(/\s+/)[0])).toEqual(["triggered", "processed", "processed", "ended"]);
  expect(new Set(lines.slice(0, 3).map((line) => line.indexOf("TakeOrder") + line.indexOf("Charge"))).size).toBe(1);
  const again = await onceflow([...runNodes, "--trigger", order("o-1"), "--key", "order-1", "--wait"], folder);
  expect(again).toMatchObject({ code: 0, err: expect.stringContaining("the key was already used by execution ex_") as string });
  expect(await onceflow([...runNodes, "--trigger", order("o-2"), "--key", "order-1", "--wait"], folder)).toMatchObject({
    code: 2,
    err: expect.stringContaining("key: was already used with a different payload") as string,
  });
  expect(chargesIn(folder)).toEqual(["o-1-charge"]);
});

test("after a process died, the next one delivers its packets when the lease has expired", async () => {
  const folder = shop();
  const { file } = on(beside);
  const { child, url, ended } = await running(folder, beside, ["--lease-ms", "500"]);
  const { code } = await onceflow(["trigger", "orders", order("o-1"), "--url", url, "--wait"], folder);
  const stuck = await onceflow(["trigger", "orders", order("stuck"), "--url", url], folder);
  const charged = (count: number) =>
    poll(
      20_000,
      () => (chargesIn(folder).length === count ? true : undefined),
      () => `charged so far: ${chargesIn(folder).join()}`,
    );
  await charged(2);
  child.kill("SIGKILL");
  await ended;
  // No worker is running: the trigger is stored until one starts.
  const left = await onceflow(["trigger", "orders", order("o-2"), ...file], folder);
  expect([code, stuck.code, left.code, chargesIn(folder)]).toEqual([0, 0, 0, ["o-1-charge", "stuck-charge"]]);
  const next = await running(folder, beside);
  // The order that the process died with is charged again with the same key.
  await charged(4);
  next.child.kill("SIGTERM");
  expect(await next.ended).toEqual([0, null]);
  expect(chargesIn(folder).sort()).toEqual(["o-1-charge", "o-2-charge", "stuck-charge", "stuck-charge"]);
});

test("a declined order gives exit code 1, and control characters in a node's message are escaped", async () => {
  const folder = shop();
  const { runNodes } = on(beside);
  const { code, out } = await onceflow([...runNodes, "--trigger", order("o-1", 10_000), "--wait"], folder);
  expect([code, chargesIn(folder)]).toEqual([1, []]);
  expect(out).toMatch(/dead {10}.*PERMANENT: declined \[31m by the bank; pk_\w+ in unpaid/);
  expect(out).not.toContain("\u001b");
});

test("with --json every line of standard output is an event, and output of nodes goes to standard error", async () => {
  const folder = shop();
  const { code, out, err } = await onceflow([...on(beside).runNodes, "--trigger", order("o-1", 2), "--wait", "--json"], folder);
  expect([code, err]).toEqual([0, expect.stringContaining("charging two\n")]);
  const events = out
    .trim()
    .split("\n")
    .map((line) => (JSON.parse(line) as { type: string }).type);
  expect(events).toEqual(["triggered", "delivering", "processed", "delivering", "processed", "ended"]);
});

test("invalid input prints one line with exit code 2, and nothing is written", async () => {
  const folder = shop();
  const { store, file } = on(beside);
  writeFileSync(join(folder, "empty.mjs"), "export const something = 1;\n");
  writeFileSync(join(folder, "half.ts"), "export const nodes = {\n");
  writeFileSync(join(folder, "throws.mjs"), 'throw new Error("not today");\n');
  writeFileSync(join(folder, "token.txt"), "short\n");
  writeFileSync(join(folder, "broken.yaml"), 'flowdsl: "1.0"\nedges: 1\n');
  const before = readdirSync(folder).sort();
  const wrong: readonly (readonly [string[], RegExp])[] = [
    [["run", "broken.yaml", "--nodes", "nodes.ts", ...store], /^broken\.yaml:2:8 error FLOW_BAD_TYPE/m],
    [["trigger", "orders", order("o-1"), "--file", "broken.yaml", ...store], /cannot be run/],
    [["run", ".", "--nodes", "none.ts", ...store], /file not found: none\.ts/],
    [["run", ".", "--nodes", "empty.mjs", ...store], /empty\.mjs must export `nodes`/],
    [["run", ".", "--nodes", ".", ...store], /file not found: \.$/m],
    [["run", ".", "--nodes", "half.ts", ...store], /half\.ts cannot be loaded: SyntaxError: .*Expected `}`/],
    [["run", ".", "--nodes", "throws.mjs", ...store], /throws\.mjs cannot be loaded: Error: not today$/m],
    [["run", ".", "--nodes", "nodes.ts", ...store, "--trigger", "{"], /must be a JSON object/],
    [["run", ".", "--nodes", "nodes.ts", ...store, "--wait"], /requires --trigger/],
    [["run", ".", "--nodes", "nodes.ts", ...store, "--lease-ms", "1"], /whole number from 50 to 3600000/],
    [["trigger", "orders", order("o-1"), ...store], /--file/],
    // `run --trigger` refuses this too.
    [["trigger", "orders", '{"orderId":1}', ...file], /payload: does not match Order, which source "TakeOrder" passes on: /],
    [
      ["run", ".", "--nodes", "nodes.ts", "--store", "memory:", "--trigger", '{"orderId":1}', "--wait"],
      /payload: packet does not match schema "Order"/,
    ],
    [["trigger", "orders", "@none.json", ...file], /no such file/],
    [["trigger", "orders", "--url", "nowhere"], /is not an http/],
    [["trigger", "orders", "--wait", "soon", "--url", "http://127.0.0.1:1"], /number of seconds/],
    [["executions", ...store], /database not found: flows\.db/],
    [["runs"], /database not found: \.onceflow\/onceflow\.db/],
    [["keys", "--limit", "0", ...store], /from 1 to 1000/],
    [["executions", "--store", "carrier-pigeon://x"], /there is no store for/],
    [["dead-letters", "retry", ...store], /name dead letters, or use --all/],
    [["dead-letters", "nonsense"], /unknown command/],
  ];
  const ran = await Promise.all(wrong.map(async ([args, why]) => ({ args, why, ...(await onceflow(args, folder)) })));
  for (const { args, why, code, out, err } of ran) {
    expect({ args, code, out }).toEqual({ args, code: 2, out: "" });
    expect(err).toMatch(why);
    // The place in the user's module that threw is printed; a stack trace of our code is not.
    expect(err).not.toMatch(/^\s+at .*(node:internal|\/dist\/)/m);
  }
  expect(readdirSync(folder).sort()).toEqual(before);
});

test("a trigger at a node that is not an entry point is refused", async () => {
  const folder = shop();
  const { store, file } = on(beside);
  const { code, err } = await onceflow(["trigger", "orders", order("o"), "--entry", "Charge", ...file], folder);
  expect([code, err]).toEqual([2, expect.stringMatching(/has no entry point "Charge"/)]);
  expect(JSON.parse((await onceflow(["executions", "--json", ...store], folder)).out)).toEqual([]);
});

test("other machines are served only with a token, and no error contains the token", async () => {
  const folder = shop();
  const { runNodes } = on(beside);
  writeFileSync(join(folder, "token.txt"), "hunter2\n");
  const [open1, short] = await Promise.all([
    onceflow([...runNodes, "--port", "0", "--host", "0.0.0.0"], folder),
    onceflow([...runNodes, "--port", "0", "--host", "0.0.0.0", "--token-file", "token.txt"], folder),
  ]);
  expect(open1).toMatchObject({ code: 2, err: expect.stringContaining("without a token") as string });
  expect(short).toMatchObject({ code: 2, err: expect.stringContaining("16 or more") as string });
  expect(short.err).not.toContain("hunter2");
});
