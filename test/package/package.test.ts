import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { appWith, directivePackages, manifest, type Packed, pack, root } from "./packed.js";

let packed: Packed;
beforeAll(() => {
  packed = pack(afterAll);
});

/** Subpaths with side effects on the process or a thread. They have their own tests. */
const programs = /^\.\/(register|heartbeat\/.*)$/;

test("every subpath has code and types, and loads", async () => {
  for (const [subpath, target] of Object.entries(manifest.exports)) {
    if (typeof target === "string") continue;
    for (const file of Object.values(target)) expect(existsSync(join(root, file)), file).toBe(true);
    if (programs.test(subpath)) continue;
    const module = (await import(`onceflow${subpath.slice(1)}`)) as object;
    expect(Object.keys(module).length, subpath).toBeGreaterThan(0);
    expect(module, `${subpath} has named exports only`).not.toHaveProperty("default");
  }
});

/** The rule of the package's entry points. A condition of a subpath (`browser`) is another file in the same folder, `runtime-browser.ts`. */
test("onceflow/a/b is src/exports/a/b.ts, and the folder has no other files", () => {
  const code = Object.entries(manifest.exports).filter(([, target]) => typeof target !== "string") as [string, Record<string, string>][];
  const expected = code.flatMap(([subpath, conditions]) => {
    const name = subpath === "." ? "index" : subpath.slice(2);
    return Object.entries(conditions).map(([condition, file]) => {
      const ending = condition === "types" ? ".d.ts" : condition === "default" ? ".js" : `-${condition}.js`;
      expect(file, `${subpath}, ${condition}`).toBe(`./dist/exports/${name}${ending}`);
      return file.replace(/^\.\/dist\/exports\//, "").replace(/(\.d\.ts|\.js)$/, ".ts");
    });
  });
  const there = readdirSync(join(root, "src/exports"), { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
  expect(there.sort()).toEqual([...new Set(expected)].sort());
});

test("database drivers are optional peers", () => {
  for (const driver of Object.keys(manifest.peerDependencies)) {
    expect(manifest.peerDependenciesMeta[driver]?.optional, driver).toBe(true);
    expect(manifest.dependencies).not.toHaveProperty(driver);
  }
});

test("the packed files are only those that a user needs", () => {
  const superfluous = packed.files.filter((file) => /\.test\.|\.map$|\.tsbuildinfo$|^src\/|^\.build\/|(^|\/)node_modules\//.test(file));
  expect(superfluous).toEqual([]);
  expect(packed.files.filter((file) => file.startsWith("test/"))).toEqual(["test/README.md"]);
  const built = packed.files.filter((file) => file.startsWith("dist/")).map((file) => file.replace(/^dist\/|(\.d\.ts|\.js)$/g, ""));
  const stale = built.filter((file) => !existsSync(join(root, "src", `${file}.ts`)));
  expect(stale, "files in dist without a source: remove dist and .build, and build again").toEqual([]);
});

test("the clients for other languages are packed", () => {
  const clients = packed.files.filter((file) => file.startsWith("clients/"));
  expect(clients.sort()).toEqual(["clients/onceflow.go", "clients/onceflow.py"]);
});

test("no file refers to a source map: none is packed", () => {
  const code = packed.files.filter((file) => file.endsWith(".js"));
  expect(code.length).toBeGreaterThan(500);
  expect(code.filter((file) => /^\/\/# sourceMappingURL=/m.test(readFileSync(join(packed.folder, file), "utf8")))).toEqual([]);
});

test("every relative link of a packed page leads to a packed file", () => {
  const folders = new Set(packed.files.flatMap((file) => parentsOf(file)));
  const pages = packed.files.filter((file) => file.endsWith(".md"));
  expect(pages).toContain("docs/guide/getting-started.md");
  const broken = pages.flatMap((page) => {
    const text = readFileSync(join(packed.folder, page), "utf8").replace(/^```.*?^```/gms, "");
    const links = [...text.matchAll(/\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"/g)].map(([, inText, inHtml]) => inText ?? inHtml ?? "");
    return links
      .filter((link) => !/^([a-z]+:|#)/.test(link))
      .filter((link) => {
        const target = join(dirname(page), link.replace(/[?#].*$/, "")).replace(/\/$/, "");
        return !packed.files.includes(target) && !folders.has(target);
      })
      .map((link) => `${page}: ${link}`);
  });
  expect(broken, "pack the file (files in package.json), or write its path as code instead of a link").toEqual([]);
});

function parentsOf(file: string): string[] {
  const parts = file.split("/").slice(0, -1);
  return parts.map((_, i) => parts.slice(0, i + 1).join("/"));
}

/** Subpaths that read directives in source code, and plugins for bundlers. */
const forDirectives = /^\.\/(transform|register|vite|rollup|rolldown|esbuild|webpack|rspack|next|workflow\/vitest)$/;

test("only subpaths for directives load the parser: all others load if it is not installed", () => {
  const packages = Object.keys(manifest.dependencies).filter((name) => !directivePackages.includes(name));
  expect(packages.length).toBe(Object.keys(manifest.dependencies).length - directivePackages.length);
  const subpaths = Object.keys(manifest.exports).filter((subpath) => typeof manifest.exports[subpath] === "object");
  const loaded = subpaths.filter((subpath) => !forDirectives.test(subpath) && !programs.test(subpath) && subpath !== "./http/nest");
  expect(loaded).toEqual(expect.arrayContaining([".", "./workflow", "./http", "./graph", "./testing", "./server"]));
  const folder = appWith(packed, {
    packages,
    files: { "load.mjs": loaded.map((subpath) => `await import("onceflow${subpath.slice(1)}");`).join("\n") },
  });
  execFileSync(process.execPath, ["load.mjs"], { cwd: folder });
  for (const subpath of ["./transform", "./vite"]) {
    const load = `import("onceflow${subpath.slice(1)}").catch((error) => console.log(error.code))`;
    expect(execFileSync(process.execPath, ["-e", load], { cwd: folder, encoding: "utf8" }), subpath).toBe("ERR_MODULE_NOT_FOUND\n");
  }
});

test("once alone needs one package, and loads no packages of graphs or the command line", () => {
  const folder = appWith(packed, {
    packages: ["devalue"],
    files: {
      "load.mjs":
        'import { key, once, open } from "onceflow";\nimport "onceflow/http";\nimport "onceflow/workflow";\nawait open("memory:");',
    },
  });
  execFileSync(process.execPath, ["load.mjs"], { cwd: folder });
});

test("works from its tarball without any driver, and reports which one is missing", () => {
  const folder = appWith(packed, {
    files: {
      "try.mjs": `import { key, once, open } from "onceflow";
     const store = await open("memory:");
     console.log((await once(store, { key: key.of("k") }, () => 42)).value);
     const without = async (url) => open(url).then(() => "opened", (error) => error.code + " " + error.message);
     console.log(await without("postgres://127.0.0.1:1/x"));
     console.log(await without("sqlite:./x.db?driver=@photostructure/sqlite"));
     const { createApp, serve } = await import("onceflow/server");
     for (const use of [async () => createApp({}), () => serve({ trigger() {} }, { port: 0 })])
       console.log(await use().then(() => "served", (error) => error.code + " " + error.message));
     await store.close();`,
      "a.yaml": 'flowdsl: "1.0"\ninfo: { title: A, version: "1" }\nnodes: { A: { operationId: a, kind: source } }\n',
    },
  });
  const lines = execFileSync(process.execPath, ["try.mjs"], { cwd: folder, encoding: "utf8" }).split("\n");
  expect(lines[0]).toBe("42");
  expect(lines[1]).toMatch(/^MISSING_DRIVER .*npm install pg/);
  expect(lines[2]).toMatch(/^MISSING_DRIVER .*npm install @photostructure\/sqlite@1/);
  for (const line of [3, 4]) expect(lines[line]).toMatch(/^MISSING_PACKAGE .*npm install hono @hono\/node-server/);
  const command = join(folder, "node_modules/onceflow", manifest.bin.onceflow);
  const output = execFileSync(process.execPath, [command, "validate", "a.yaml"], { cwd: folder, encoding: "utf8" });
  expect(output).toBe("1 file, 0 errors, 0 warnings\n");
  expect(packed.files).toContain("schema/flow.json");
});
