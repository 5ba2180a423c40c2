import { execFileSync } from "node:child_process";
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";

const root = resolve(import.meta.dirname, "../..");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  exports: Record<string, string | Record<string, string>>;
  bin: { onceflow: string };
  dependencies: Record<string, string>;
  peerDependencies: Record<string, string>;
  peerDependenciesMeta: Record<string, { optional: boolean }>;
};

test("every subpath has code and types, and loads", async () => {
  for (const [subpath, target] of Object.entries(manifest.exports)) {
    if (typeof target === "string") continue;
    for (const file of Object.values(target)) expect(existsSync(join(root, file)), file).toBe(true);
    // Imported for what it does to the process; its own test sees it do it.
    if (subpath === "./register") continue;
    const module = (await import(`onceflow${subpath.slice(1)}`)) as object;
    expect(Object.keys(module).length, subpath).toBeGreaterThan(0);
    expect(module, `${subpath} has named exports only`).not.toHaveProperty("default");
  }
});

/** The one rule of the package's entry points. A condition of a subpath (`browser`) is a file beside it, `runtime-browser.ts`. */
test("onceflow/a/b is src/exports/a/b.ts, and nothing else is there", () => {
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

/** The package as npm would ship it, installed next to nothing but its own dependencies. */
test("works from its tarball without any driver, and says which one is missing", () => {
  const folder = temporaryFolder(onTestFinished);
  const [packed] = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], { cwd: root, encoding: "utf8" }),
  ) as {
    filename: string;
    files: { path: string }[];
  }[];
  expect(packed?.files.some(({ path }) => /\.test\.|^src|^test|^\.build/.test(path))).toBe(false);
  execFileSync("mkdir", ["-p", join(folder, "node_modules/onceflow")]);
  execFileSync("tar", ["-xzf", join(folder, packed?.filename ?? ""), "-C", join(folder, "node_modules/onceflow"), "--strip-components=1"]);
  for (const name of Object.keys(manifest.dependencies))
    cpSync(join(root, "node_modules", name), join(folder, "node_modules", name), { recursive: true });
  writeFileSync(
    join(folder, "try.mjs"),
    `import { once, open } from "onceflow";
     const store = await open("memory:");
     console.log((await once(store, { key: "k" }, () => 42)).value);
     const without = async (url) => open(url).then(() => "opened", (error) => error.code + " " + error.message);
     console.log(await without("postgres://127.0.0.1:1/x"));
     console.log(await without("sqlite:./x.db?driver=@photostructure/sqlite"));
     const { createApp, serve } = await import("onceflow/server");
     for (const use of [async () => createApp({}), () => serve({}, { port: 0 })])
       console.log(await use().then(() => "served", (error) => error.code + " " + error.message));
     await store.close();`,
  );
  const lines = execFileSync(process.execPath, ["try.mjs"], { cwd: folder, encoding: "utf8" }).split("\n");
  expect(lines[0]).toBe("42");
  expect(lines[1]).toMatch(/^MISSING_DRIVER .*npm install pg/);
  const installed = join(folder, "node_modules/onceflow");
  expect(existsSync(join(installed, "schema/flow.json"))).toBe(true);
  writeFileSync(
    join(folder, "a.yaml"),
    'flowdsl: "1.0"\ninfo: { title: A, version: "1" }\nnodes: { A: { operationId: a, kind: source } }\n',
  );
  const said = execFileSync(process.execPath, [join(installed, manifest.bin.onceflow), "validate", "a.yaml"], {
    cwd: folder,
    encoding: "utf8",
  });
  expect(said).toBe("1 file, 0 errors, 0 warnings\n");
  expect(lines[2]).toMatch(/^MISSING_DRIVER .*npm install @photostructure\/sqlite@1/);
  for (const line of [3, 4]) expect(lines[line]).toMatch(/^MISSING_PACKAGE .*npm install hono @hono\/node-server/);
});
