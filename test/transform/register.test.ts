import { fork } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { serveEffects } from "onceflow/testing";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { appFolder, lineOf, runNode } from "../kit/app-folder.js";

const app = `import { configure, open } from "onceflow";
import { createHook, getStepMetadata } from "onceflow/workflow";
import { getHookByToken, start } from "onceflow/workflow/api";
import { double, type Amount } from "./double.js";
import { label } from "./label";
import { page } from "./page.jsx";
import { clockOf, noDirective } from "a-package";

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
  return [stepName, attempt, id, await double(amount), Currency.Euro, label(), page(), noDirective()].join(" ");
}

async function failing(): Promise<void> {
  "use step";
  // After code that is replaced.
  if (Date.now() > 0) throw new TypeError("the step failed");
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
  await failing().catch((error) => console.log(error.cause.stack));
  return [charged, clock];
}

const lost = async () => {
  "use workflow";
  await double(1);
  if (Date.now() > 0) throw new RangeError("the workflow failed");
};

configure({ store: await open("memory:") });
const run = await start(checkout, [{ id: "order-1", amount: 21 }]);
console.log(JSON.stringify(await run.returnValue));
console.log(await getHookByToken("approval").catch((error) => error.code));
await (await start(lost)).returnValue.catch((error) => console.log(error.cause.stack));
`;

const files = {
  "src/app.ts": app,
  "src/double.ts":
    'export type Amount = number;\nexport const double = async (n: Amount): Promise<Amount> => { "use step"; return n * 2; };\n',
  "src/label/index.mts": 'export const label = (): string => "label";\n',
  "src/page.tsx": "/** @jsxImportSource hono/jsx */\nexport const page = (): string => String(<b title={typeof fetch}>page</b>);\n",
  "node_modules/a-package/package.json": '{ "name": "a-package", "type": "module", "exports": "./index.js" }',
  "node_modules/a-package/index.js":
    'export const clockOf = () => Date.now();\nexport const noDirective = () => { const text = "use step"; "use step".length; return text === `use step`; };\n',
};

describe("node --import onceflow/register app.ts", () => {
  const nodes = { "this Node": () => ({ ok: true, path: process.execPath }) as const, "Node 24": () => inject("node24") };
  test.for(Object.entries(nodes))("%s: TypeScript and directives work, stacks show the user's lines", async ([, given], { skip }) => {
    const node = given();
    if (!node.ok) return skip(node.reason);
    const cwd = appFolder(files, ["hono"]);
    const { code, stdout, stderr } = await runNode(["--import", "onceflow/register", "src/app.ts"], { cwd, node: node.path });
    expect(code, stderr).toBe(0);
    const charged = 'step//app//src/app.ts//charge 1 order-1 42 EUR label <b title="function">page</b> true';
    expect(stdout).toContain(JSON.stringify([charged, true]));
    expect(stdout).toContain("HOOK_NOT_FOUND");
    // The column in the source, not in the transformed code.
    const inStep = `${lineOf(app, "throw new TypeError")}:29`;
    expect(stdout).toMatch(new RegExp(`TypeError: the step failed\\n\\s+at failing \\(\\S*src/app\\.ts:${inStep}\\)`));
    const inWorkflow = `${lineOf(app, "throw new RangeError")}:29`;
    expect(stdout).toMatch(new RegExp(`RangeError: the workflow failed\\n\\s+at (?:async )?lost \\(\\S*src/app\\.ts:${inWorkflow}\\)`));
  });

  test("a directive in a wrong place is reported with file, line, column and advice, and the exit code is not 0", async () => {
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

  test("ids have the package's name wherever the app is run; without a name the root is the package's folder, or ONCEFLOW_ROOT", async () => {
    const code = 'import { definedAs } from "./name.js";\nexport async function f() { "use step"; }\nconsole.log(definedAs(f));';
    const name = 'export const definedAs = (fn: any) => fn[Symbol.for("onceflow.step")].name;';
    const cwd = appFolder({ "src/deep/app.ts": code, "src/deep/name.ts": name, "src/package.json": '{ "type": "module" }' });
    const args = ["--import", "onceflow/register", join(cwd, "src/deep/app.ts")];
    expect((await runNode(args, { cwd: join(cwd, "src/deep") })).stdout).toBe("step//app//src/deep/app.ts//f\n");
    expect((await runNode(args, { cwd, env: { ONCEFLOW_ROOT: "src" } })).stdout).toBe("step//app//src/deep/app.ts//f\n");
    writeFileSync(join(cwd, "package.json"), '{ "type": "module" }');
    expect((await runNode(args, { cwd })).stdout).toBe("step//src/deep/app.ts//f\n");
    expect((await runNode(args, { cwd: join(cwd, "src/deep") })).stdout).toBe("step//deep/app.ts//f\n");
    expect((await runNode(args, { cwd, env: { ONCEFLOW_ROOT: "src/deep" } })).stdout).toBe("step//app.ts//f\n");
  });

  test("JavaScript: modules are transformed; CommonJS is left alone, and refused if it has directives", async () => {
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

describe("packages with directives", () => {
  const library = 'export * from "./pay.js";';
  const pay =
    'import { getStepMetadata } from "onceflow/workflow";\nexport async function pay() { "use step"; return getStepMetadata().stepName; }\n';
  const packaged = (manifest: object = {}, name = "billing") => ({
    [`node_modules/${name}/package.json`]: JSON.stringify({ name, type: "module", exports: "./index.js", ...manifest }),
    [`node_modules/${name}/index.js`]: library,
    [`node_modules/${name}/pay.js`]: pay,
    "app.ts": `import { configure, open } from "onceflow"; import { start } from "onceflow/workflow/api"; import { pay } from "${name}";
async function main() { "use workflow"; return await pay(); }
configure({ store: await open("memory:") });
console.log(await (await start(main)).returnValue);
process.exit();`,
  });
  const run = (cwd: string, env = {}) => runNode(["--import", "onceflow/register", "app.ts"], { cwd, env });

  test("are refused if they are not included, with advice, and left alone if they are excluded", async () => {
    const cwd = appFolder(packaged());
    const { code, stdout, stderr } = await run(cwd);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toContain('node_modules/billing/pay.js:2:31: this file has directives, but package "billing" is not transformed');
    expect(stderr).toContain("ONCEFLOW_INCLUDE=billing");
    // A plain function, which has no metadata.
    expect((await run(cwd, { ONCEFLOW_EXCLUDE: "other, billing" })).stderr).toContain("getStepMetadata() can only be used in a step");
    expect((await run(cwd, { ONCEFLOW_INCLUDE: "./billing" })).stderr).toContain("ONCEFLOW_INCLUDE: must be");
  });

  test("are transformed if they are named, if their package.json says so, and if they are known", async () => {
    const id = (name: string) => `step//${name}//pay.js//pay\n`;
    expect((await run(appFolder(packaged()), { ONCEFLOW_INCLUDE: "billing" })).stdout).toBe(id("billing"));
    expect((await run(appFolder(packaged({ onceflow: { directives: true } })))).stdout).toBe(id("billing"));
    expect((await run(appFolder(packaged({}, "@ai-sdk/workflow")))).stdout).toBe(id("@ai-sdk/workflow"));
  });

  test("are refused in CommonJS, too", async () => {
    const files = {
      ...packaged(),
      "node_modules/billing/index.js": 'exports.pay = async function () { "use step"; };',
      "node_modules/billing/package.json": '{ "name": "billing" }',
    };
    const { code, stderr } = await run(appFolder({ ...files, "app.ts": 'import "billing";' }));
    expect(code).toBe(1);
    expect(stderr).toContain("node_modules/billing/index.js:1:35: this file has directives");
  });
});

describe("files that CommonJS requires", () => {
  const nodes = { "this Node": () => ({ ok: true, path: process.execPath }) as const, "Node 24": () => inject("node24") };
  const billing = {
    "node_modules/billing/package.json": '{ "name": "billing" }',
    "node_modules/billing/index.js": 'module.exports = require("./lib/steps.js");',
    "node_modules/billing/lib/steps.js": 'exports.charge = async () => { "use step"; console.log("charged"); };',
    "app.ts": 'import billing from "billing"; await billing.charge();',
  };
  const run = (files: Readonly<Record<string, string>>, env = {}, node: string = process.execPath) =>
    runNode(["--import", "onceflow/register", "app.ts"], { cwd: appFolder(files), env, node });

  test.for(Object.entries(nodes))("%s: a step in a file of a package is refused, with advice that works", async ([, given], { skip }) => {
    const node = given();
    if (!node.ok) return skip(node.reason);
    const { code, stdout, stderr } = await run(billing, {}, node.path);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toContain('node_modules/billing/lib/steps.js:1:32: this file has directives, but package "billing" is CommonJS');
    expect(stderr).toContain("Call the package from a step in your own code");
    expect(stderr).not.toContain("ONCEFLOW_INCLUDE");
    expect((await run(billing, { ONCEFLOW_EXCLUDE: "billing" }, node.path)).stdout).toBe("charged\n");
  });

  test("a package that is named nevertheless gets the same advice", async () => {
    const advice = 'this file has directives, but package "billing" is CommonJS';
    expect((await run(billing, { ONCEFLOW_INCLUDE: "billing" })).stderr).toContain(`billing/lib/steps.js:1:32: ${advice}`);
    const direct = { ...billing, "node_modules/billing/package.json": '{ "name": "billing", "main": "lib/steps.js" }' };
    expect((await run(direct, { ONCEFLOW_INCLUDE: "billing" })).stderr).toContain(`billing/lib/steps.js:1:32: ${advice}`);
  });

  test("files of the project are checked, too, and also for misspelt directives", async () => {
    const project = (steps: string) => ({ "app.ts": 'import "./a.cjs";', "a.cjs": 'require("./b.cjs");', "b.cjs": steps });
    expect((await run(project('exports.f = async () => { "use step"; };'))).stderr).toContain("b.cjs:1:27: directives need an ES module");
    expect((await run(project('exports.f = async () => { "use stpe"; };'))).stderr).toContain('b.cjs:1:27: "use stpe" is not a directive');
    expect((await run(project('console.log("use step");'))).stdout).toBe("use step\n");
  });

  test.for(Object.entries(nodes))("%s: a module that require() loads is not transformed, and is refused", async ([, given], { skip }) => {
    const node = given();
    if (!node.ok) return skip(node.reason);
    const files = (steps: string) => ({
      "app.ts": 'import "./a.cjs";',
      "a.cjs": 'require("./b.mjs").f().then(console.log);',
      "b.mjs": steps,
      "c.mjs": 'import { getStepMetadata } from "onceflow/workflow";\nexport async function f() { "use step"; return 1; }',
    });
    const direct = await run(files('export async function f() { "use step"; }'), {}, node.path);
    expect(direct.stderr).toContain("b.mjs:1:29: this file has directives, but require() loads it");
    // Node 20 does not pass the imports of a required module to any hook; later versions do, and it is transformed.
    const behind = await run(files('export { f } from "./c.mjs";'), {}, node.path);
    const isShown = node.path !== process.execPath || Number.parseInt(process.versions.node, 10) >= 22;
    if (isShown) expect(behind.stdout, behind.stderr).toBe("1\n");
    else expect(behind.stderr).toContain("c.mjs:2:29: this file has directives, but require() loads it");
    expect((await run(files("export const f = async () => 2;"), {}, node.path)).stdout).toBe("2\n");
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

test("an app that is killed and run again continues under the same stepIds, and repeats only the step in progress", async () => {
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
