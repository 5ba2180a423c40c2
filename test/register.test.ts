import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { serveEffects } from "onceflow/testing";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { appFolder, lineOf, runNode } from "./app-folder.js";

const app = `import { configure, open } from "onceflow";
import { createHook, getStepMetadata } from "onceflow/workflow";
import { getHookByToken, start } from "onceflow/workflow/api";
import { double, type Amount } from "./double.js";
import { label } from "./label";
import { page } from "./page.jsx";
import { clockOf, notAStep } from "a-package";

interface Order {
  readonly id: string;
  readonly amount: Amount;
}

enum Currency {
  Euro = "EUR",
}

async function charge({ id, amount }: Order): Promise<string> {
  "use step";
  const { stepName, attempt } = getStepMetadata();
  return [stepName, attempt, id, await double(amount), Currency.Euro, label(), page(), await notAStep()].join(" ");
}

async function failing(): Promise<void> {
  "use step";
  try {
    throw new TypeError("the step failed"); // here in the step
  } catch (error) {
    console.log((error as Error).stack);
    throw error;
  }
}
failing.maxRetries = 0;

export async function checkout(order: Order) {
  "use workflow";
  const clock = clockOf() !== Date.now() || new Date().getTime() === Date.now();
  const charged = await charge(order);
  {
    using hook = createHook({ token: "approval" });
    void hook;
    await double(1);
  }
  await failing().catch(() => {});
  try {
    throw new RangeError("the workflow failed"); // here in the workflow
  } catch (error) {
    console.log((error as Error).stack);
  }
  return [charged, clock];
}

configure({ store: await open("memory:") });
const run = await start(checkout, [{ id: "order-1", amount: 21 }]);
console.log(JSON.stringify(await run.returnValue));
console.log(await getHookByToken("approval").catch((error) => error.code));
`;

const files = {
  "src/app.ts": app,
  "src/double.ts":
    'export type Amount = number;\nexport const double = async (n: Amount): Promise<Amount> => { "use step"; return n * 2; };\n',
  "src/label/index.mts": 'export const label = (): string => "label";\n',
  "src/page.tsx": "/** @jsxImportSource hono/jsx */\nexport const page = (): string => String(<b title={typeof fetch}>page</b>);\n",
  "node_modules/a-package/package.json": '{ "name": "a-package", "type": "module", "exports": "./index.js" }',
  "node_modules/a-package/index.js":
    'export const clockOf = () => Date.now();\nexport async function notAStep() { "use step"; return notAStep.toString().includes("use step"); }\n',
};

describe("node --import onceflow/register app.ts", () => {
  const nodes = { "this Node": () => ({ ok: true, path: process.execPath }) as const, "Node 24": () => inject("node24") };
  test.for(Object.entries(nodes))("%s: TypeScript and directives work, stacks show the user's lines", async ([, given], { skip }) => {
    const node = given();
    if (!node.ok) return skip(node.reason);
    const cwd = appFolder(files, ["hono"]);
    const { code, stdout, stderr } = await runNode(["--import", "onceflow/register", "src/app.ts"], { cwd, node: node.path });
    expect(code, stderr).toBe(0);
    const charged = 'step//src/app.ts//charge 1 order-1 42 EUR label <b title="function">page</b> true';
    expect(stdout).toContain(JSON.stringify([charged, true]));
    expect(stdout).toContain("HOOK_NOT_FOUND");
    const inStep = lineOf(app, "throw new TypeError");
    expect(stdout).toMatch(new RegExp(`TypeError: the step failed\\n\\s+at failing \\(\\S*src/app\\.ts:${inStep}:11\\)`));
    const inWorkflow = lineOf(app, "throw new RangeError");
    expect(stdout).toMatch(
      new RegExp(`RangeError: the workflow failed\\n\\s+at (?:async )?checkout \\(\\S*src/app\\.ts:${inWorkflow}:11\\)`),
    );
  });

  test("a directive in a wrong place: file, line and column, advice, and a code that is not 0", async () => {
    const cwd = appFolder({ "app.ts": 'console.log("ran");\nimport "./bad.ts";', "bad.ts": '\nexport function f() {\n  "use step";\n}' });
    const { code, stdout, stderr } = await runNode(["--import", "onceflow/register", "app.ts"], { cwd });
    expect(code).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toContain("bad.ts:2:8: only an async function can be a step. Write async before it.");
  });

  test("a syntax error shows its line", async () => {
    const cwd = appFolder({ "app.ts": 'const a: number = 1;\nasync function f() { "use step"; const = 1; }' });
    const { code, stderr } = await runNode(["--import", "onceflow/register", "app.ts"], { cwd });
    expect(code).toBe(1);
    expect(stderr).toMatch(/SyntaxError.*app\.ts[\s\S]*app\.ts:2:40/);
  });

  test("the root is the folder of the package, from wherever it is run, or what ONCEFLOW_ROOT says", async () => {
    const code = 'import { definedAs } from "./name.js";\nexport async function f() { "use step"; }\nconsole.log(definedAs(f));';
    const name = 'export const definedAs = (fn: any) => fn[Symbol.for("onceflow.step")].name;';
    const cwd = appFolder({ "src/deep/app.ts": code, "src/deep/name.ts": name });
    const args = ["--import", "onceflow/register", join(cwd, "src/deep/app.ts")];
    expect((await runNode(args, { cwd: join(cwd, "src/deep") })).stdout).toBe("step//src/deep/app.ts//f\n");
    expect((await runNode(args, { cwd, env: { ONCEFLOW_ROOT: "src" } })).stdout).toBe("step//deep/app.ts//f\n");
  });

  test("JavaScript: modules are transformed, CommonJS is left alone, and refused with directives", async () => {
    const cwd = appFolder({
      "package.json": '{ "name": "app" }',
      "app.mjs":
        'import { f } from "./module.js"; import { now } from "./common.js"; console.log(await f(), typeof now(), f.toString().includes("callStep"));',
      "module.js": 'export async function f() { "use step"; return 1; }',
      "common.js": "exports.now = () => Date.now(); exports.text = String(exports.now);",
      "bad.mjs": 'import "./bad.js";',
      "bad.js": 'module.exports = async function f() { "use step"; };',
    });
    const good = await runNode(["--import", "onceflow/register", "app.mjs"], { cwd });
    expect(good.stdout, good.stderr).toBe("1 number true\n");
    const bad = await runNode(["--import", "onceflow/register", "bad.mjs"], { cwd });
    expect(bad.code).toBe(1);
    expect(bad.stderr).toContain("bad.js:1:39: directives need an ES module");
  });
});

const shop = `import { open } from "onceflow";
import { getStepMetadata, work } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";

async function call(place: string): Promise<string> {
  "use step";
  const { stepId, attempt } = getStepMetadata();
  const headers = { "idempotency-key": stepId, "x-attempt": String(attempt) };
  const response = await fetch(process.env["PROVIDER"] ?? "", { method: "POST", headers });
  await response.json();
  if (place === "second" && process.send) {
    process.send("called");
    await new Promise(() => setInterval(() => {}, 1000));
  }
  return stepId;
}

export async function shop(): Promise<unknown> {
  "use workflow";
  return [Math.random(), await call("first"), Date.now(), await call("second"), crypto.randomUUID(), await call("third")];
}

const store = await open("sqlite:./shop.db");
await work(store, { leaseMs: 500 });
const run = await start(shop, [], { id: "shop-1", store });
console.log(JSON.stringify(await run.returnValue));
process.exit();
`;

test("killed in the middle and run again: it goes on, under the same stepIds, and repeats only what was in doubt", async () => {
  const provider = await serveEffects({ honoursKeys: true });
  onTestFinished(() => provider.close());
  const cwd = appFolder({ "shop.ts": shop });
  const env = { ...process.env, PROVIDER: provider.url };
  const first = fork(join(cwd, "shop.ts"), { cwd, env, execArgv: ["--import", "onceflow/register"], silent: true });
  await once(first, "message");
  const dead = once(first, "exit");
  first.kill("SIGKILL");
  await dead;
  const { code, stdout, stderr } = await runNode(["--import", "onceflow/register", "shop.ts"], { cwd, env });
  expect(code, stderr).toBe(0);
  const [, one, , two, , three] = JSON.parse(stdout) as string[];
  const { effects } = provider;
  expect(new Set(effects.keys())).toEqual(new Set([one, two, three]));
  expect([one, two, three].map((key) => [effects.rawCalls(String(key)), effects.applied(String(key))])).toEqual([
    [1, 1],
    [2, 1],
    [1, 1],
  ]);
});
