import { join, resolve } from "node:path";
import { parseSync } from "oxc-parser";
import { describe, expect, test } from "vitest";
import { TransformError } from "./errors.js";
import { transform } from "./transform.js";

const root = "/project";
const transformed = (code: string, file = "app.ts") => transform(code, { file: `${root}/${file}`, root })?.code;

/** Without the import, and with short names. */
function rewritten(code: string, file?: string): string | undefined {
  return transformed(code, file)
    ?.replace(/import \{[^}]*\} from "onceflow\/workflow\/runtime"; /, "")
    .replaceAll("__onceflow_", "$");
}

function findings(code: string, file = "app.ts"): string[] {
  try {
    transformed(code, file);
  } catch (error) {
    if (error instanceof TransformError) return error.message.split("\n");
    throw error;
  }
  return [];
}

describe("a directive in a wrong position is reported", () => {
  const wrong: Readonly<Record<string, readonly [code: string, ...messages: string[]]>> = {
    "a function that is not async": [
      'export function f() {\n  "use step";\n}',
      "app.ts:1:8: only an async function can be a step. Write async before it.",
    ],
    "an arrow that is not async": ['const f = () => { "use workflow"; };', "app.ts:1:11: only an async function can be a workflow."],
    "a generator": ['async function* f() { "use step"; }', "app.ts:1:1: a generator cannot be a step."],
    "a getter": ['class A { get a() { "use step"; return 1; } }', "a getter cannot be a step."],
    "a setter": ['const a = { set a(x) { "use step"; } };', "a setter cannot be a step."],
    "a constructor": ['class A { constructor() { "use workflow"; } }', "a constructor cannot be a workflow."],
    "after a statement": [
      'async function f() {\n  await g();\n  "use step";\n}',
      'app.ts:3:3: "use step" is not a directive here: it is not the first statement',
    ],
    "in a block": ['async function f() { if (x) { "use step"; } }', '"use step" is not a directive here'],
    "at the end of a file": ['export const x = 1;\n"use workflow";', 'app.ts:2:1: "use workflow" is not a directive here'],
    "in backticks": ["async function f() { `use step`; }", 'app.ts:1:22: "use step" is not a directive here: it is in backticks'],
    "in parentheses": ['async function f() { ("use step"); }', '"use step" is not a directive here'],
    "without its semicolon, before a parenthesis": [
      'async function f() {\n  "use step"\n  (await g());\n}',
      'app.ts:2:3: "use step" is not a directive here',
    ],
    both: ['async function f() {\n  "use workflow";\n  "use step";\n}', "app.ts:3:3: a function cannot be both a workflow and a step."],
    "both, on top of a file": [
      '"use step"; "use workflow";\nexport async function f() {}',
      "app.ts:1:13: a function cannot be both a workflow and a step.",
    ],
    twice: ['async function f() { "use step"; "use step"; }', '"use step" is repeated.'],
    "use steps": ['async function f() { "use steps"; }', 'app.ts:1:22: "use steps" is not a directive. Write "use step".'],
    "use Workflow": ['async function f() { "use Workflow"; }', 'Write "use workflow".'],
    "two spaces": ['async function f() { "use  step"; }', 'Write "use step".'],
    "use-step": ["async function f() { 'use-step'; }", 'Write "use step".'],
    "a near miss after statements": ['async function f() { g(); "use Step"; }', 'Write "use step".'],
    "use stpe": ['async function f() {\n  "use stpe";\n}', 'app.ts:2:3: "use stpe" is not a directive. Write "use step".'],
    "use stepp": ['async function f() { "use stepp"; }', 'Write "use step".'],
    "user step": ['async function f() { "user step"; }', 'Write "use step".'],
    "user stpe": ['async function f() { "user stpe"; }', 'Write "use step".'],
    "use worflow": ["async function f() { 'use worflow'; }", 'Write "use workflow".'],
    "use wrokflows": ["async function f() { 'use wrokflow'; }", 'Write "use workflow".'],
    "use wrokflwo": ["async function f() { 'use wrokflwo'; }", 'Write "use workflow".'],
    "use tsepp": ["async function f() { 'use tsepp'; }", 'Write "use step".'],
    "sue step": ['async function f() { "sue step"; }', 'Write "use step".'],
    "us step": ['async function f() { "us step"; }', 'Write "use step".'],
    "USE STEPP": ['async function f() { "USE STEPP"; }', 'Write "use step".'],
    "misspelt, beside other directives": ['async function f() { "use strict"; "use setp"; }', 'Write "use step".'],
    "misspelt, on top of a file": [
      '"use worklfow";\nexport async function f() {}',
      'app.ts:1:1: "use worklfow" is not a directive. Write "use workflow".',
    ],
    "misspelt, after statements": ['async function f() { g(); "use stpe"; }', 'Write "use step".'],
    "misspelt, after a string and a word that begins with u": [
      'const a = "b"\nusing; async function f() { "use stpe"; }',
      'Write "use step".',
    ],
    "misspelt, in a function that is not async": ['function f() { "use stpe"; }', 'Write "use step".'],
    "no name": ['items.map(async (x) => { "use step"; });', "app.ts:1:11: a step needs a name for its id"],
    "a computed name": ['class A { async [name]() { "use step"; } }', "a step needs a name for its id"],
    "a private method": ['class A { async #m() { "use step"; } }', "a private method cannot be a step."],
    "super in a member of an object": ['const a = { async m() { "use step"; return super.m(); } };', "super does not work in a step"],
    "this in a workflow of an instance": ['class A { async m() { "use workflow"; return () => this.x; } }', "a workflow has no `this`"],
    "this in a workflow of an object": ['const a = { async m() { "use workflow"; return this.x; } };', "a workflow has no `this`"],
    "the same name twice": [
      'const a = () => { async function f() { "use step"; } };\nfunction b() { async function f() { "use step"; } }\n{ async function f() { "use step"; } }\n{ const f = async () => { "use step"; }; }',
      'app.ts:4:13: two steps of this file are named "f"',
    ],
    "a function that is not async, in a file of steps": [
      '"use step";\nexport function f() {}',
      "app.ts:2:8: only an async function can be a step.",
    ],
  };
  test.for(Object.entries(wrong))("%s", ([, [code, ...messages]]) => {
    const found = findings(code);
    expect(found).toHaveLength(messages.length);
    for (const [i, message] of messages.entries()) expect(found[i]).toContain(message);
  });

  test("all findings of a file are reported at once, in order, and the error has the position of the first", () => {
    const code = 'function a() { "use step"; }\nasync function b() { "use steps"; }\nasync function c() { g(); "use step"; }';
    expect(findings(code).map((each) => each.slice(0, each.indexOf(": ")))).toEqual(["app.ts:1:1", "app.ts:2:22", "app.ts:3:27"]);
    expect.assertions(3);
    try {
      transformed(code);
    } catch (error) {
      expect(error).toMatchObject({ code: "DIRECTIVE", file: "app.ts", line: 1, column: 1 });
      expect(TransformError.is(error)).toBe(true);
    }
  });

  test("a directive in CommonJS is an error; clocks in CommonJS are not replaced", () => {
    expect(findings('module.exports = { f: async () => { "use step"; } };', "app.js")[0]).toContain(
      "app.js:1:37: directives need an ES module",
    );
    expect(transformed("exports.now = () => Date.now();", "app.js")).toBeUndefined();
    expect(transformed('async function f() { "use step"; }', "app.js")).toContain("callStep");
    expect(findings('export async function f() { "use step"; }', "app.cts")[0]).toContain("app.cts:1:29: directives need an ES module");
    expect(transformed("const now = Date.now();", "app.cjs")).toBeUndefined();
  });
});

describe("a string that is not a directive", () => {
  const others = [
    "use strict",
    "use client",
    "use server",
    "use cache",
    "use cache: remote",
    "use memo",
    "use no memo",
    "use asm",
    "use the force",
    "useful",
  ];
  test.for(others)("%s passes", (text) => {
    expect(transformed(`"${text}"; export async function f() { "${text}"; fetch; }`)).toContain(`"${text}"`);
  });

  test("a misspelt directive passes if it is part of a longer statement", () => {
    expect(
      findings(
        'export const a = "use stpe"; g("use stepp"); "use set".split(" "); export function f(a = "use worflow") { return ["user step"]; }',
      ),
    ).toEqual([]);
  });

  test("a similar string passes if the option directives lists it", () => {
    const code = 'async function f() { "use stop"; }';
    expect(findings(code)).toEqual([expect.stringContaining('"use stop" is not a directive. Write "use step".')]);
    expect(() => transform(code, { file: "/project/app.ts", root, directives: ["use stop"] })).not.toThrow();
  });
});

test("code that is nested too deeply to be analysed passes, unless it has directives", () => {
  const deep = `export const x = Date${".now()".repeat(5000)};`;
  expect(transformed(deep)).toBeUndefined();
  expect(findings(`${deep}\nasync function f() { "use step"; }`)).toEqual([
    expect.stringContaining("app.ts:1:1: this code is nested too deeply"),
  ]);
});

describe("code that is returned unchanged", () => {
  const alone: Readonly<Record<string, string>> = {
    "code without directives and globals": "export const a = 1;",
    "a comment": "// use step, new Date(), fetch()\nexport const a = 1;",
    "a string": 'const a = "Date.now()"; log("use step");',
    "a directive of another tool": '"use client"; "use server"; export const a = 1;',
    "Date with arguments": "const a = [new Date(5), Date.parse(x), Date.UTC(1), x instanceof Date, class extends Date {}, Date];",
    "other members":
      "const a = [Math.max(1, random), crypto.randomBytes(1), o.fetch(), o.Date.now(), o.setTimeout, { fetch: 1, setTimeout() {} }];",
    "operands of typeof": 'const a = typeof fetch === "function" && typeof globalThis.fetch;',
    "targets of assignments":
      "globalThis.fetch = () => 1; Math.random = async function () {}; delete globalThis.fetch; [fetch] = []; ({ fetch } = o); for (fetch of a); fetch++;",
    parameters: "function f(fetch, { Date }, [setTimeout = 1], ...crypto) { fetch(); Date.now(); setTimeout(); crypto.randomUUID(); }",
    "let, const and class": "{ let fetch; const Date = 1; class Math {} fetch(); new Date(); Math.random(); }",
    "var, hoisted out of a block, after its use": "function f() { fetch(); if (x) { var fetch; } }",
    "a function, hoisted": "fetch(); function fetch() {}",
    catch: "try {} catch (fetch) { fetch(); }",
    "catch with a pattern": "try {} catch ({ fetch }) { fetch(); }",
    loops: "for (const fetch of a) fetch(); for (let Date = 0; ; ) Date.now(); for (var Math in a); Math.random();",
    imports: 'import fetch, { a as setTimeout } from "x"; import * as Date from "y"; fetch(); setTimeout(); Date.now();',
    "an import of another module's randomUUID": 'import { randomUUID } from "x"; randomUUID();',
    "the names of functions and classes": "(function fetch() { fetch(); }); (class Date { static a = Date.now(); });",
    types:
      "let a: typeof fetch; type B = ReturnType<typeof setTimeout>; function f(x: Date): x is Date { return true; } interface C { fetch(): Date }",
    "enums and namespaces": "enum E { fetch = 1, b = fetch } namespace Math { export const random = 1; } Math.random;",
    labels: "fetch: for (;;) { break fetch; }",
    members: "class A { fetch() {} static Date = 1; setTimeout = 2; get random() { return 1; } } export { a as fetch } from 'x';",
    "a file that does not parse": 'async function f() { "use step"; ',
  };
  test.for(Object.entries(alone))("%s", ([, code]) => {
    expect(transformed(code)).toBeUndefined();
  });

  test("files of other kinds", () => {
    expect(transform("fetch()", { file: "/project/a.css", root })).toBeUndefined();
  });

  test("a name that is declared in one scope is a global in another", () => {
    expect(rewritten("function f(fetch) { fetch(1); }\nfetch(2); { const Date = 1; } Date.now();")).toBe(
      "function f(fetch) { fetch(1); }\n$fetch(2); { const Date = 1; } $dateNow();",
    );
  });

  test("`declare` does not declare a name: it refers to a global", () => {
    expect(rewritten("declare function fetch(): void; declare const Date: any;\nfetch(); Date.now();")).toContain("$fetch(); $dateNow();");
  });
});

describe("clocks, random numbers, timers and fetch are replaced", () => {
  const changed: readonly (readonly [from: string, to: string])[] = [
    ["new Date()", "$newDate()"],
    ["new Date", "$newDate()"],
    ["new Date().getTime()", "$newDate().getTime()"],
    ["new (Date)()", "$newDate()"],
    ["new globalThis.Date()", "$newDate()"],
    ["Date()", "$dateText()"],
    ["Date.now()", "$dateNow()"],
    ['Date["now"]()', "$dateNow()"],
    ["a.map(Date.now)", "a.map($held(Date.now))"],
    ["globalThis.Date.now()", "$dateNow()"],
    ["Math.random()", "$random()"],
    ["crypto.randomUUID()", "$uuid()"],
    ["globalThis.crypto?.randomUUID()", "$uuid()"],
    ["await fetch(url)", "await $fetch(url)"],
    ["const f = fetch", "const f = $held(fetch)"],
    ["use({ fetch, setTimeout: setTimeout })", "use({ fetch: $held(fetch), setTimeout: $held(setTimeout) })"],
    ["globalThis.fetch(url)", "$fetch(url)"],
    ["(globalThis as any).fetch(url)", "$fetch(url)"],
    ["fetch.call(null, url)", "$held(fetch).call(null, url)"],
    ["const real = globalThis.fetch", "const real = $held(globalThis.fetch)"],
    ["globalThis.fetch = real", "globalThis.fetch = $released(real)"],
    ["Date.now = x ? y : z", "Date.now = $released(x ? y : z)"],
    ["global.setInterval(f, 1)", "$setInterval(f, 1)"],
    ["setImmediate(f)", "$setImmediate(f)"],
    ["function f(a = Date.now()) {}", "function f(a = $dateNow()) {}"],
    ["const { a = fetch, [Date.now()]: b } = c", "const { a = $held(fetch), [$dateNow()]: b } = c"],
    ["(fetch as any)!(x)", "($fetch as any)!(x)"],
    ["a[Math.random()] = fetch", "a[$random()] = $held(fetch)"],
    ["class A { x = Date.now(); [fetch] = 1 }", "class A { x = $dateNow(); [$held(fetch)] = 1 }"],
    ["enum E { a = Date.now() }", "enum E { a = $dateNow() }"],
  ];
  test.for(changed)("%s", ([from, to]) => {
    expect(rewritten(`${from}; export {};`)).toBe(`${to}; export {};`);
  });

  test("randomUUID of node:crypto, under any local name", () => {
    const imports =
      'import { randomUUID as id, randomBytes } from "node:crypto"; import whole from "crypto"; import * as space from "node:crypto";';
    expect(rewritten(`${imports} id(); whole.randomUUID(); space.randomUUID(); whole.randomBytes(1); { const id = f; id(); }`)).toBe(
      `${imports} $held(id)(); $held(whole.randomUUID)(); $held(space.randomUUID)(); whole.randomBytes(1); { const id = f; id(); }`,
    );
  });

  test("in JSX", () => {
    expect(rewritten("export const A = () => <Date fetch={fetch}>Date.now()</Date>;", "a.tsx")).toBe(
      "export const A = () => <Date fetch={$held(fetch)}>Date.now()</Date>;",
    );
  });
});

describe("ids", () => {
  const names: Readonly<Record<string, readonly [code: string, ...ids: string[]]>> = {
    "a declaration": ['async function f() { "use step"; }', "step//src/app.ts//f"],
    "a workflow": ['async function f() { "use workflow"; }', "workflow//src/app.ts//f"],
    "an arrow": ['const f = async () => { "use step"; };', "step//src/app.ts//f"],
    "a one-liner without its semicolon": ['export const f = async (a) => { "use step" }', "step//src/app.ts//f"],
    "a function expression goes by its variable": ['const f = async function g() { "use step"; };', "step//src/app.ts//f"],
    "under types and parentheses": ['const f = (async <T,>(a: T) => { "use step"; }) satisfies X as Y;', "step//src/app.ts//f"],
    "default exports": ['export default async function () { "use workflow"; }', "workflow//src/app.ts//default"],
    "a default export with a name": ['export default async function f() { "use workflow"; }', "workflow//src/app.ts//f"],
    "an arrow as the default export": ['export default async () => { "use step"; };', "step//src/app.ts//default"],
    nested: [
      'async function a() { "use workflow"; const b = async () => { "use step"; async function c() { "use step"; } }; }',
      "workflow//src/app.ts//a",
      "step//src/app.ts//a/b",
      "step//src/app.ts//a/b/c",
    ],
    methods: [
      'class A { static async b() { "use step"; } async b() { "use step"; } static c = async () => { "use step"; }; #d = async () => { "use step"; }; async "e-f"() { "use step"; } }',
      "step//src/app.ts//A.b",
      "step//src/app.ts//A.prototype.b",
      "step//src/app.ts//A.c",
      "step//src/app.ts//A.prototype.d",
      "step//src/app.ts//A.prototype.e-f",
    ],
    "a class expression": ['const B = class { static async m() { "use step"; } };', "step//src/app.ts//B.m"],
    "members of objects": [
      'const o = { async a() { "use step"; }, b: async () => { "use step"; }, c: { d: async function () { "use step"; } } };',
      "step//src/app.ts//o.a",
      "step//src/app.ts//o.b",
      "step//src/app.ts//o.c.d",
    ],
    "members of an argument of a call": [
      'const a = tool({ execute: async () => { "use step"; } }); export const b = await tool([{ async execute() { "use step"; } }]);\nregister({ execute: async () => { "use step"; } }); export default new Agent({ x: { execute: async () => { "use step"; } } });',
      "step//src/app.ts//execute",
      "step//src/app.ts//x.execute",
      "step//src/app.ts//a/tool/execute",
      "step//src/app.ts//b/tool/execute",
      "step//src/app.ts//register/execute",
      "step//src/app.ts//default/Agent/x.execute",
    ],
    "a single function in an argument has the same path as one of several": [
      'const a = tool({ execute: async () => { "use step"; } });',
      "step//src/app.ts//a/tool/execute",
      "step//src/app.ts//execute",
    ],
    branches: [
      'if (x) { async function f() { "use step"; } } else if (y) { async function f() { "use step"; } } else { async function f() { "use step"; } }',
      "step//src/app.ts//f",
      "step//src/app.ts//if/f",
      "step//src/app.ts//else/if/f",
      "step//src/app.ts//else/else/f",
    ],
    "more branches": [
      'switch (k) { case "a": { async function f() { "use step"; } } case K.b: async function f() { "use step"; } default: { async function f() { "use step"; } } }\ntry { async function f() { "use step"; } } catch { async function f() { "use step"; } } finally { async function f() { "use step"; } }\nconst g = x ? { f: async () => { "use step"; } } : { f: async () => { "use step"; } };',
      "step//src/app.ts//f",
      "step//src/app.ts//case a/f",
      "step//src/app.ts//case K.b/f",
      "step//src/app.ts//default/f",
      "step//src/app.ts//try/f",
      "step//src/app.ts//catch/f",
      "step//src/app.ts//finally/f",
      "step//src/app.ts//g/if/f",
      "step//src/app.ts//g/else/f",
    ],
    "a function that is returned": [
      'export function a() { return async () => { "use step"; }; } const b = () => (async () => { "use step"; });\nfunction c() { return { async d() { "use step"; } }; } const e = () => async function f() { "use step"; };',
      "step//src/app.ts//a/return",
      "step//src/app.ts//b/return",
      "step//src/app.ts//c/d",
      "step//src/app.ts//e/f",
    ],
    assignments: ['a.b.c = async () => { "use step"; };', "step//src/app.ts//a.b.c"],
    "a file of steps": [
      '"use step";\nexport async function a() {}\nexport const b = async () => {}, n = 1;\nasync function c() {}\nconst d = async () => {};\nexport { c, d as e };\nexport * from "./x"; export { y } from "./y";\nasync function hidden() {}\nexport default async () => {};\nexport class K { async m() {} }',
      "step//src/app.ts//a",
      "step//src/app.ts//b",
      "step//src/app.ts//c",
      "step//src/app.ts//d",
      "step//src/app.ts//default",
    ],
    "a function's own directive comes before its file's": [
      '"use workflow";\nexport async function a() {}\nexport async function b() { "use step"; }\nasync function c() { "use step"; }',
      "workflow//src/app.ts//a",
      "step//src/app.ts//b",
      "step//src/app.ts//c",
    ],
    "a default export by name": ['"use workflow";\nasync function a() {}\nexport default a;', "workflow//src/app.ts//a"],
    "characters that a name cannot contain": ['const o = { async "a#b"() { "use step"; } };', "step//src/app.ts//o.a%23b"],
  };
  test.for(Object.entries(names))("%s", ([, [code, ...ids]]) => {
    const found = [...(transformed(code, "src/app.ts") ?? "").matchAll(/"((?:step|workflow)\/\/[^"]*)"/g)].map(([, id]) => id);
    expect([...new Set(found)].sort()).toEqual([...ids].sort());
  });

  test("contain the name of the package; ids relative to the root are former ids", () => {
    const repository = resolve(import.meta.dirname, "../..");
    const code = 'export async function f() { "use step"; }\nconst a = tool({ execute: async () => { "use workflow"; } });';
    const made = transform(code, { file: join(repository, "examples/a.ts"), root: join(repository, "src") })?.code;
    expect(made).toContain('["step//onceflow//examples/a.ts//f","step//../examples/a.ts//f"]');
    const former = ["a/tool/execute", "execute"].map((name) => `"workflow//../examples/a.ts//${name}"`);
    expect(made).toContain(`["workflow//onceflow//examples/a.ts//a/tool/execute",${former.join(",")}]`);
  });

  test("are relative to the root, with slashes, if no package has a name", () => {
    const code = 'export async function f() { "use step"; }';
    expect(transform(code, { file: "/a/b/c.mts", root: "/a/x" })?.code).toContain('"step//../b/c.mts//f"');
  });
});

describe("the transformed code", () => {
  test("keeps a hashbang and other directives where they are", () => {
    const lines = transformed('#!/usr/bin/env node\n"use strict";\nfetch();\nexport {};')?.split("\n");
    expect(lines?.slice(0, 2)).toEqual(["#!/usr/bin/env node", '"use strict";']);
    expect(lines?.[2]).toMatch(/^import .* __onceflow_fetch\(\);$/);
  });

  test("does not change if it is transformed again", () => {
    const code =
      '"use step";\nexport async function f() { globalThis.fetch = fetch; return [new Date(), fetch, { fetch }]; }\nexport const g = { async h() { "use workflow"; await fetch(x); } };';
    const once = transformed(code) ?? "";
    expect(transformed(once)).toBeUndefined();
  });

  test("of a file with only a directive is an empty module", () => {
    const code = transformed('"use step";') ?? "";
    expect(parseSync("a.ts", code).errors).toEqual([]);
  });
});
