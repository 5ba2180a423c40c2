import { open, type Store } from "onceflow";
import { replayJournal } from "onceflow/testing";
import { type Worker, WorkflowNotRegisteredError, work } from "onceflow/workflow";
import { readAttempts, readJournal, start } from "onceflow/workflow/api";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as browser from "../../src/exports/workflow/runtime-browser.js";
import { importTransformed } from "./transformed.js";

type Fn = ((...args: never[]) => Promise<unknown>) & { maxRetries?: number };

let store: Store;
let worker: Worker;
beforeAll(async () => {
  store = await open("memory:");
  worker = await work(store);
});
afterAll(async () => {
  await worker.stop();
  await store.close();
});

async function resultOf(workflow: Fn, args: unknown[] = []): Promise<{ value: unknown; steps: string[]; id: string }> {
  const run = await start(workflow, args as never[], { store });
  const value = await run.returnValue;
  const steps = (await readJournal(run.id, { store })).filter(({ type }) => type === "step").map(({ id = "" }) => id);
  return { value, steps, id: run.id };
}

const imports = 'import { getStepMetadata, getWorkflowMetadata, FatalError, sleep } from "onceflow/workflow";\n';

describe('a function with "use step" is a step', () => {
  const forms: Readonly<Record<string, readonly [code: string, value: unknown, ...steps: string[]]>> = {
    "a declaration, called before its line": [
      'export async function main() { "use workflow"; return await f(2); }\nasync function f(n: number, m = 3) { "use step"; return [n, m, arguments.length]; }',
      [2, 3, 1],
      "step//app.ts//f#0",
    ],
    "an arrow": [
      'const f = async (n: number) => { "use step"; return n; };\nexport async function main() { "use workflow"; return await f(2); }',
      2,
      "step//app.ts//f#0",
    ],
    "a default export without a name": [
      'import self from "./app.js"; export default async function () { "use step"; return self.name; }\nexport async function main() { "use workflow"; return await self(); }',
      "default",
      "step//app.ts//default#0",
    ],
    "a static method, with this and super": [
      'class A { static tax = 2; static rate() { return 10; } } class B extends A { static async price(n: number) { "use step"; return n * super.rate() + this.tax; } }\nexport async function main() { "use workflow"; return await B.price(2); }',
      22,
      "step//app.ts//B.price#0",
    ],
    "a method of an instance, with this, super, private names and arguments": [
      'class A { rate() { return 10; } } class B extends A { #tax; constructor(tax: number) { super(); this.#tax = tax; } async price(n: number) { "use step"; return [n * super.rate() + this.#tax, arguments.length]; } }\nexport async function main() { "use workflow"; return [await new B(1).price(2), await new B(5).price(3)]; }',
      [
        [21, 1],
        [35, 1],
      ],
      "step//app.ts//B.prototype.price#0",
      "step//app.ts//B.prototype.price#1",
    ],
    "a step that overrides a step": [
      'class A { async m() { "use step"; return "a"; } } class B extends A { async m() { "use step"; return "b" + (await super.m()); } }\nexport async function main() { "use workflow"; return await new B().m(); }',
      "ba",
      "step//app.ts//B.prototype.m#0",
    ],
    "fields of a class": [
      'class A { n = 4; f = async () => { "use step"; return this.n; }; #g = async () => { "use step"; return this.n + 1; }; g() { return this.#g(); } static h = async () => { "use step"; return 6; }; }\nexport async function main() { "use workflow"; const a = new A(); return [await a.f(), await a.g(), await A.h()]; }',
      [4, 5, 6],
      "step//app.ts//A.prototype.f#0",
      "step//app.ts//A.prototype.g#0",
      "step//app.ts//A.h#0",
    ],
    "members of an object, with this": [
      'const o = { n: 7, async f(m: number) { "use step"; return this.n + m; }, g: async () => { "use step"; return 8; }, h: { async "i j"() { "use step"; return 9; } } };\nexport async function main() { "use workflow"; return [await o.f(1), await o.g(), await o.h["i j"]()]; }',
      [8, 8, 9],
      "step//app.ts//o.f#0",
      "step//app.ts//o.g#0",
      "step//app.ts//o.h.i j#0",
    ],
    "nested functions, each with its own closure": [
      'export async function main() { "use workflow"; const out = []; for (const n of [1, 2, 3]) { out.push(await f(10)); async function f(m: number) { "use step"; return n + m; } } return out; }',
      [11, 12, 13],
      "step//app.ts//main/f#0",
      "step//app.ts//main/f#1",
      "step//app.ts//main/f#2",
    ],
    "in a switch, a namespace and a static block": [
      'const out: unknown[] = [];\nnamespace N { export async function n() { "use step"; return 1; } }\nclass K { static run; static { K.run = () => b(); async function b() { "use step"; return 2; } } }\nexport async function main() { "use workflow"; switch (out.length >= 0) { case true: return [await s(), await N.n(), await K.run()]; async function s() { "use step"; return 0; } } }',
      [0, 1, 2],
      "step//app.ts//main/case true/s#0",
      "step//app.ts//N.n#0",
      "step//app.ts//K.b#0",
    ],
    "passed as a value, and closed over": [
      'const f = async (n: number) => { "use step"; return n * 2; };\nconst twice = (fn: any) => async (n: number) => await fn(await fn(n));\nexport async function main() { "use workflow"; return [await Promise.all([1, 2].map(f)), await twice(f)(3)]; }',
      [[2, 4], 12],
      "step//app.ts//f#0",
      "step//app.ts//f#1",
      "step//app.ts//f#2",
      "step//app.ts//f#3",
    ],
    "a step in a step is a plain call": [
      'async function g() { "use step"; return 1; }\nasync function f() { "use step"; return await g(); }\nexport async function main() { "use workflow"; return await f(); }',
      1,
      "step//app.ts//f#0",
    ],
    "overloads, generics, decorators and enums": [
      'const seen: string[] = []; function log(_: unknown, key: string, d: PropertyDescriptor) { seen.push(key); return d; }\nenum E { A = "e" }\nasync function f(a: string): Promise<string>;\nasync function f(a: number): Promise<string>;\nasync function f<T>(a: T): Promise<string> { "use step"; return (a satisfies T) + E.A; }\nclass K<T> { @log async m<U extends T>(this: K<T>, a: U): Promise<U> { "use step"; return a!; } }\nexport async function main() { "use workflow"; return [await f(1), await f("x"), await new K<number>().m(3), seen]; }',
      ["1e", "xe", 3, ["m"]],
      "step//app.ts//f#0",
      "step//app.ts//f#1",
      "step//app.ts//K.prototype.m#0",
    ],
  };
  test.for(Object.entries(forms))("%s", async ([, [code, value, ...steps]]) => {
    const { main } = await importTransformed<{ main: Fn }>({ "app.ts": code });
    expect(await main()).toEqual(value);
    expect(await resultOf(main)).toMatchObject({ value, steps });
  });

  test("names and lengths are kept", async () => {
    const { all } = await importTransformed<{ all: Fn[] }>({
      "app.ts": `export async function a(x: number, y: number, z = 1) { "use step"; }
        const b = async (x: number) => { "use step"; };
        class C { static async d(x: number, ...y: number[]) { "use step"; } async e() { "use step"; } }
        const o = { async f(this: unknown, x: number) { "use step"; }, g: async () => { "use workflow"; } };
        async function h(x: number) { "use workflow"; }
        export const all = [a, b, C.d, new C().e, o.f, o.g, h];`,
    });
    expect(all.map(({ name, length }) => `${name} ${length}`)).toEqual(["a 2", "b 1", "d 1", "e 0", "f 1", "g 0", "h 1"]);
  });

  test("maxRetries and options count wherever they are set, and `this` is the same at every attempt", async () => {
    const { main } = await importTransformed<{ main: Fn }>({
      "app.ts": `${imports}
        const fail = (key: string, self: any) => { const { attempt } = getStepMetadata(); seen.push([key, attempt, self?.n]); throw new Error(key); };
        const seen: unknown[] = [];
        async function a() { "use step"; fail("a", this); }
        a.maxRetries = 1; a.options = { backoff: { minMs: 1, maxMs: 1 } };
        class K { n = 5; async b() { "use step"; fail("b", this); } static async c() { "use step"; fail("c", this); } static n = 6; }
        K.prototype.b.maxRetries = 2; K.prototype.b.options = { backoff: { minMs: 1, maxMs: 1 } };
        K.c.maxRetries = 0;
        const o = { async d() { "use step"; fail("d", this); } };
        o.d.maxRetries = 0;
        export async function main() {
          "use workflow";
          const errors = [];
          for (const f of [() => a(), () => new K().b(), () => K.c(), () => o.d()]) await f().catch((error) => errors.push(FatalError.is(error)));
          return [errors, seen];
        }`,
    });
    const { value } = await resultOf(main);
    const seen = [
      ["a", 1, undefined],
      ["a", 2, undefined],
      ["b", 1, 5],
      ["b", 2, 5],
      ["b", 3, 5],
      ["c", 1, 6],
      ["d", 1, undefined],
    ];
    expect(value).toEqual([[true, true, true, true], seen]);
  });

  test("in modules that import each other, a function that is called before its module is evaluated is a step nevertheless", async () => {
    const { main } = await importTransformed<{ main: Fn }>({
      "app.ts": `import { early } from "./b.js";
        export async function f(n: number) { "use step"; return n; }
        f.maxRetries = 0;
        export async function main() { "use workflow"; return [await early(1), await f(2)]; }`,
      "b.ts": 'import { f } from "./app.js";\nexport const early = f;\nexport const told = await f(5);',
    });
    expect(await resultOf(main)).toMatchObject({ value: [1, 2], steps: ["step//app.ts//f#0", "step//app.ts//f#1"] });
  });

  test("a run may call a step of a module that is not evaluated yet", async () => {
    const { told } = await importTransformed<{ told: unknown }>({
      "app.ts": 'export { told } from "./b.js";\nexport async function f(n: number) { "use step"; return n; }\nf.maxRetries = 0;',
      "b.ts": `import { open } from "onceflow"; import { work } from "onceflow/workflow"; import { readJournal, start } from "onceflow/workflow/api"; import { f } from "./app.js";
        async function early() { "use workflow"; return await f(5); }
        const store = await open("memory:"); const worker = await work(store);
        const run = await start(early, [], { store });
        export const told = [await run.returnValue, (await readJournal(run.id, { store }))[0]?.id];
        await worker.stop(); await store.close();`,
    });
    expect(told).toEqual([5, "step//app.ts//f#0"]);
  });

  test("a step that is stored in a value is the same step again; so is a workflow", async () => {
    const { main, f, child } = await importTransformed<{ main: Fn; f: Fn; child: Fn }>({
      "app.ts": `import { start } from "onceflow/workflow/api";
        export async function f(n: number) { "use step"; return n + 1; }
        export const child = async (fn: typeof f) => { "use workflow"; return await fn(1); };
        export async function main(fn: typeof f, of: typeof child) { "use workflow"; return [await fn(5), await (await start(of, [fn])).returnValue]; }`,
    });
    expect(await resultOf(main, [f, child])).toMatchObject({ value: [6, 2], steps: ["step//app.ts//f#0"] });
  });

  test("a file of steps, a file of workflows, and re-exports", async () => {
    const { main } = await importTransformed<{ main: Fn }>({
      "app.ts":
        '"use workflow";\nimport { a, c, d } from "./index.js";\nexport const main = async () => [await a(), await c(), await d()];\nexport const version = 1;',
      "index.ts": 'export * from "./steps.js";',
      "steps.ts":
        '"use step";\nexport async function a() { return await helper(); }\nasync function helper() { return "a"; }\nconst b = async () => "b";\nexport { b as c };\nexport default a; export { default as d } from "./d.js";',
      "d.ts": 'export default async () => { "use step"; return "d"; };',
    });
    expect(await resultOf(main)).toMatchObject({
      value: ["a", "b", "d"],
      steps: ["step//steps.ts//a#0", "step//steps.ts//b#0", "step//d.ts//default#0"],
    });
  });
});

describe('a function with "use workflow" is a workflow', () => {
  const forms: Readonly<Record<string, readonly [code: string, name: string]>> = {
    "a declaration": ['export async function main(n: number) { "use workflow"; return [n, name()]; }', "main"],
    "an arrow": ['export const main = async (n: number) => { "use workflow"; return [n, name()]; };', "main"],
    "a function expression": ['export const main = async function (n: number) { "use workflow"; return [n, name()]; };', "main"],
    "a default export": [
      'export { default as main } from "./app.js"; export default async function (n: number) { "use workflow"; return [n, name()]; }',
      "default",
    ],
    "a static method, with its class as this": [
      'class A { static #m() { return name(); } static async run(n: number) { "use workflow"; return [n, this.#m()]; } } export const main = A.run;',
      "A.run",
    ],
    "a method of an instance": [
      'class A { async run(n: number) { "use workflow"; return [n, name()]; } } export const main = new A().run;',
      "A.prototype.run",
    ],
    "a member of an object": [
      'const o = { async run(n: number) { "use workflow"; return [n, name()]; } }; export const main = o.run;',
      "o.run",
    ],
    "nested, started before its line": [
      'export const main = outer(5); function outer(m: number) { return inner; async function inner(n: number) { "use workflow"; return [n * m / 5, name()]; } }',
      "outer/inner",
    ],
  };
  test.for(Object.entries(forms))("%s", async ([, [code, name]]) => {
    const main = `${imports}function name() { return getWorkflowMetadata().workflowName; }\n${code}`;
    const module = await importTransformed<{ main: Fn }>({ "app.ts": main });
    expect((await resultOf(module.main, [4])).value).toEqual([4, `workflow//app.ts//${name}`]);
  });

  test("a workflow that was not transformed throws an error that says what to do", async () => {
    async function forgotten() {
      "use workflow";
    }
    const refused = await start(forgotten, [], { store }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(WorkflowNotRegisteredError);
    expect(String(refused)).toMatch(/"forgotten" is not a workflow in this process\..*node --import onceflow\/register/);
    await expect(work(store, { workflows: [forgotten] })).rejects.toThrow(WorkflowNotRegisteredError);
  });
});

describe("determinism", () => {
  test("a replay sees the same times and random values, under any name", async () => {
    const { main } = await importTransformed<{ main: Fn }>({
      "app.ts": `import { randomUUID } from "node:crypto";
        async function keep(...values: unknown[]) { "use step"; return values.length; }
        export async function main() {
          "use workflow";
          const seen = () => [new Date().getTime(), Date(), Date.now(), [0].map(Date.now), Math.random(), crypto.randomUUID(), randomUUID(), globalThis.crypto.randomUUID()];
          const first = seen();
          await keep(...first);
          const second = seen();
          await keep(...second);
          return [...first, ...second];
        }`,
    });
    const { value, id } = await resultOf(main);
    const [run, journal] = [await store.runs.read(id), await store.runs.journal(id, 0, 100)];
    const replayed = await replayJournal({ workflow: main, run: run as never, journal });
    expect(replayed).toMatchObject({ kind: "ended", status: "completed" });
    expect(JSON.stringify(replayed)).toContain(JSON.stringify(JSON.stringify(value)).slice(1, -1));
    expect(new Set((value as unknown[]).filter((each) => typeof each === "string" && each.length === 36)).size).toBe(6);
  });

  test("timers and the global fetch are refused in a workflow, with advice, and work elsewhere", async () => {
    const code = `
      import { promisify } from "node:util";
      export const all = { fetch, setTimeout, setInterval, setImmediate, promised: promisify(setTimeout) };
      const tries = async () => {
        const out: string[] = [];
        for (const [name, fn] of Object.entries(all)) {
          try { await (name === "promised" ? fn(0) : fn(name === "fetch" ? "data:,x" : clear, 0)); out.push("ok"); }
          catch (error) { out.push(error.message); }
        }
        return out;
      };
      function clear() { }
      export async function main() { "use workflow"; return await tries(); }
      export async function inStep() { "use step"; const timer = setInterval(() => {}, 9); clearInterval(timer); return await (await fetch("data:,x")).text(); }
      export async function other() { "use workflow"; return await inStep(); }
      export const outside = async () => { const timer = setInterval(() => {}, 9); clearInterval(timer); await new Promise((go) => setTimeout(go, 1)); await promisify(setTimeout)(1); return await (await fetch("data:,x")).text(); };`;
    const { main, other, outside } = await importTransformed<{ main: Fn; other: Fn; outside: Fn }>({ "app.ts": code });
    const { value } = await resultOf(main);
    expect(value).toEqual([
      expect.stringMatching(/^fetch\(\) can only be used in a step: .*call fetch from onceflow\/workflow$/),
      ...["setTimeout", "setInterval", "setImmediate", "setTimeout"].map((name) =>
        expect.stringMatching(new RegExp(`^${name}\\(\\) .*sleep\\(\\)`)),
      ),
    ]);
    expect((await resultOf(other)).value).toBe("x");
    expect(await outside()).toBe("x");
  });

  test("outside of workflows a replaced global is used, and the code that replaces it may keep the original", async () => {
    const { all, patch, kept } = await importTransformed<{ all(): unknown[]; patch(): () => void; kept(): unknown[] }>({
      "app.ts": `
        import { randomUUID } from "node:crypto";
        export const all = () => [new Date().getTime(), Date.now(), Math.random(), crypto.randomUUID(), fetch("x"), setTimeout(() => {}, 9)];
        export const kept = () => [fetch, globalThis.setTimeout, Date.now, Math.random, [fetch].map((each) => each)[0] === fetch];
        export function patch() {
          const real = [globalThis.fetch, setTimeout, Date.now, Math.random, crypto.randomUUID, Date];
          globalThis.fetch = (url) => (url === "x" ? "fetched" : real[0](url));
          globalThis.setTimeout = (go, ms) => (clearTimeout(real[1](go, ms)), "timed");
          Math.random = () => real[3]() * 0 + 0.25;
          crypto.randomUUID = () => real[4].call(crypto).length;
          globalThis.Date = class extends real[5] { constructor() { super(7); } static now() { return real[2]() * 0 + 5; } };
          return () => { globalThis.fetch = real[0]; globalThis.setTimeout = real[1]; Math.random = real[3]; crypto.randomUUID = real[4]; globalThis.Date = real[5]; };
        }`,
    });
    const before = [globalThis.fetch, globalThis.setTimeout, Math.random, crypto.randomUUID, Date];
    const restore = patch();
    try {
      expect(all()).toEqual([7, 5, 0.25, 36, "fetched", "timed"]);
      expect(kept()).toEqual([globalThis.fetch, globalThis.setTimeout, Date.now, Math.random, true]);
    } finally {
      restore();
    }
    const after = [globalThis.fetch, globalThis.setTimeout, Math.random, crypto.randomUUID, Date];
    expect(after.map((each, i) => each === before[i])).toEqual([true, true, true, true, true]);
  });
});

test("a step that threw is retried under the same stepId", async () => {
  const { main } = await importTransformed<{ main: Fn }>({
    "app.ts": `${imports}
      async function flaky() { "use step"; const { stepId, attempt } = getStepMetadata(); if (attempt < 2) throw new Error("again"); return stepId; }
      flaky.options = { backoff: { minMs: 1, maxMs: 1 } };
      export async function main() { "use workflow"; return await flaky(); }`,
  });
  const { value, id } = await resultOf(main);
  expect((await readAttempts(id, String(value), { store })).map(({ attempt }) => attempt)).toEqual([1, 2]);
});

test("the runtime for browsers has the same names, and no modules of Node", async () => {
  const node = (await import("onceflow/workflow/runtime")) as object;
  expect(Object.keys(browser).sort()).toEqual(Object.keys(node).sort());
});
