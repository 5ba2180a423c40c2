import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { build } from "esbuild";
import { inspect, key, open } from "onceflow";
import { rolldown } from "rolldown";
import { rollup } from "rollup";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { until } from "../kit/until.js";
import { freshDatabase } from "../servers/postgres/databases.js";
import { appWith, link, manifest, pack, root } from "./packed.js";

/** An app before it is bundled. */
let source: string;
beforeAll(() => {
  const files = { "once.mjs": onceApp, "blocking.mjs": blockingApp, "twice.mjs": twiceApp };
  source = appWith(pack(afterAll), { packages: ["devalue"], files, onEnd: afterAll });
});

/** Drivers are not bundled. */
const external = Object.keys(manifest.peerDependencies);

const onceApp = 'import { once } from "onceflow";\nawait once({ key: process.argv[2] }, () => 42);\n';

/** Bytes of a bundle by folder of dist; other packages by their name. */
type Shares = Record<string, number>;

const bundled: Readonly<Record<string, () => Promise<{ shares: Shares; bytes: number }>>> = {
  esbuild: async () => {
    const { metafile, outputFiles } = await build({
      ...{ absWorkingDir: source, entryPoints: ["once.mjs"], bundle: true, platform: "node", format: "esm", external, minify: true },
      ...{ metafile: true, write: false },
    });
    const inputs = Object.values(metafile.outputs).flatMap((output) => Object.entries(output.inputs));
    return {
      shares: sharesOf(inputs.map(([file, { bytesInOutput }]) => [file, bytesInOutput])),
      bytes: outputFiles.reduce((sum, { contents }) => sum + contents.length, 0),
    };
  },
  rollup: async () => {
    const from = createRequire(join(source, "once.mjs"));
    const resolved = { onceflow: join(source, "node_modules/onceflow/dist/exports/index.js"), devalue: from.resolve("devalue") };
    const packages = { name: "packages", resolveId: (name: string) => resolved[name as keyof typeof resolved] };
    const bundle = await rollup({ input: join(source, "once.mjs"), plugins: [packages], external: [...external, /^node:/] });
    return measured((await bundle.generate({ format: "esm" })).output);
  },
  rolldown: async () => {
    const bundle = await rolldown({ input: join(source, "once.mjs"), platform: "node", external });
    return measured((await bundle.generate({ format: "esm", minify: true })).output);
  },
};

interface Output {
  readonly fileName: string;
  readonly code?: string;
  readonly modules?: Readonly<Record<string, { readonly renderedLength: number }>>;
}

function measured(output: readonly Output[]): { shares: Shares; bytes: number } {
  const modules = output.flatMap(({ modules = {} }) => Object.entries(modules));
  return {
    shares: sharesOf(modules.map(([file, { renderedLength }]) => [file, renderedLength])),
    bytes: output.reduce((sum, { code = "" }) => sum + code.length, 0),
  };
}

function sharesOf(files: readonly (readonly [file: string, bytes: number])[]): Shares {
  const shares: Shares = {};
  for (const [file, bytes] of files) {
    if (bytes === 0) continue;
    const name = /onceflow\/dist\/([^/]+)\//.exec(file)?.[1] ?? /.*node_modules\/([^/]+)/.exec(file)?.[1] ?? "app";
    shares[name] = (shares[name] ?? 0) + bytes;
  }
  return shares;
}

test.for(Object.keys(bundled))("%s: a bundle of once has the ledger and the stores, and no code of the other front ends", async (name) => {
  const { shares, bytes } = (await bundled[name]?.()) ?? { shares: {}, bytes: 0 };
  const parts = Object.keys(shares).filter((part) => part !== "exports");
  expect(parts.sort()).toEqual(["ambient", "app", "core", "devalue", "stores"]);
  // Minified it is 500 kB, of which 400 kB are the six stores. Rollup keeps names and comments.
  expect(bytes).toBeLessThan(name === "rollup" ? 1_100_000 : 520_000);
});

/** Its handler blocks the event loop until the file "go" exists: only the thread can renew the lease. */
const blockingApp = `
import { existsSync, writeFileSync } from "node:fs";
import { key, once, open } from "onceflow";
async function main() {
  // The warning may come while the result is saved.
  const warned = new Promise((resolve) => process.once("warning", resolve));
  const store = await open(process.argv[2]);
  const result = await once(store, { key: key.of("k"), leaseMs: 1_000 }, () => {
    writeFileSync("begun", "");
    while (!existsSync("go"));
    return 42;
  });
  if (process.argv[3] === "until warned") {
    const alive = setInterval(() => {}, 1_000);
    await warned;
    clearInterval(alive);
  }
  console.log(JSON.stringify(result));
  await store.close();
}
main();
`;

const postgres = inject("postgres");

interface Database {
  readonly name: string;
  readonly drivers: readonly string[];
  /** The URL of an empty database. */
  readonly url: (folder: string) => Promise<string>;
}

const databases = {
  SQLite: { name: "sqlite", drivers: ["@photostructure/sqlite"], url: async (folder: string) => `sqlite:${join(folder, "app.db")}` },
  PostgreSQL: {
    name: "postgres",
    drivers: ["pg"],
    url: async () => {
      const { url, drop } = await freshDatabase(postgres.ok ? postgres.url : "");
      onTestFinished(drop);
      return url;
    },
  },
} satisfies Record<string, Database>;

/** A folder with a bundle, its thread and a driver, like a deployment. */
async function deployed({ name, drivers }: Database, format: "esm" | "cjs"): Promise<string> {
  const folder = temporaryFolder(onTestFinished);
  const { warnings } = await build({
    ...{ absWorkingDir: source, outdir: folder, bundle: true, platform: "node", format, external },
    entryPoints: { app: "blocking.mjs", heartbeat: `onceflow/heartbeat/${name}` },
  });
  expect(warnings).toEqual([]);
  mkdirSync(join(folder, "node_modules"));
  for (const driver of drivers) link(folder, driver, join(root, "node_modules", driver));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: format === "esm" ? "module" : "commonjs" }));
  return folder;
}

interface Run {
  readonly child: ChildProcess;
  readonly ended: Promise<{ code: number | null; stdout: string; stderr: string }>;
}

function run(folder: string, ...args: string[]): Run {
  const { NODE_OPTIONS: _, ...env } = process.env;
  const child = spawn(process.execPath, ["app.js", ...args], { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const printed = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) child[name].setEncoding("utf8").on("data", (text: string) => (printed[name] += text));
  return { child, ended: new Promise((resolve) => child.once("close", (code) => resolve({ code, ...printed }))) };
}

describe.each(Object.entries(databases))("a bundled app on %s", (title, database) => {
  const skipped = title === "PostgreSQL" && !postgres.ok;

  test.skipIf(skipped).for(["esm", "cjs"] as const)(
    "as %s: creates its tables, and keeps its lease while its event loop is blocked",
    { timeout: 120_000 },
    async (format) => {
      const folder = await deployed(database, format);
      const url = await database.url(folder);
      const { ended } = run(folder, url);
      await until("the handler has begun", () => existsSync(join(folder, "begun")), 60_000);
      const store = await open(url, { stallMsMax: 0 });
      onTestFinished(() => store.close());
      const leases = new Set<number>();
      const renewedThrice = async () => {
        const record = await inspect(store, { key: key.of("k") });
        expect(record).toMatchObject({ state: "running", attempt: 1 });
        return leases.add(record?.leaseUntil.getTime() ?? 0).size > 3;
      };
      await until("the thread has renewed the lease three times", renewedThrice, 60_000);
      writeFileSync(join(folder, "go"), "");
      const { code, stdout, stderr } = await ended;
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      expect(JSON.parse(stdout)).toEqual({ status: "executed", value: 42, attempt: 1 });
    },
  );

  test.skipIf(skipped).for(["esm", "cjs"] as const)("as %s, without the file of the thread: warns and continues", async (format) => {
    const folder = await deployed(database, format);
    rmSync(join(folder, "heartbeat.js"));
    writeFileSync(join(folder, "go"), "");
    const { code, stdout, stderr } = await run(folder, await database.url(folder), "until warned").ended;
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ status: "executed", value: 42, attempt: 1 });
    expect(stderr).toContain(`bundle "onceflow/heartbeat/${database.name}" into this file`);
    expect(stderr).toContain(join(folder, "heartbeat.js"));
  });
});

test("a bundle with the thread of another store warns and continues", async () => {
  const folder = await deployed({ ...databases.SQLite, name: "postgres" }, "esm");
  writeFileSync(join(folder, "go"), "");
  const { stdout, stderr } = await run(folder, await databases.SQLite.url(folder), "until warned").ended;
  expect(JSON.parse(stdout)).toMatchObject({ status: "executed" });
  expect(stderr).toContain("heartbeat.js is the thread of the postgres store, and this is a sqlite store");
});

/** In a bundle all code is one file, so the place of a definition must be found without folders. */
const twiceApp = `
import { workflow } from "onceflow/workflow";
workflow("twice", async () => 1);
try {
  workflow("twice", async () => 2);
} catch (error) {
  console.log(error.code, error.message);
}
`;

test("a bundle with two workflows of one name is refused, like without a bundle", async () => {
  const folder = temporaryFolder(onTestFinished);
  const outfile = join(folder, "app.js");
  await build({ absWorkingDir: source, entryPoints: ["twice.mjs"], outfile, bundle: true, platform: "node", format: "cjs", external });
  const { stdout, stderr } = await run(folder).ended;
  expect(stdout, stderr).toMatch(
    /^DUPLICATE_NAME .*two different workflows are named "twice": at \S+app\.js:\d+:\d+ and at \S+app\.js:\d+:\d+/,
  );
});
