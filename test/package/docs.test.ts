import { execFileSync, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import * as onceflow from "onceflow";
import { openApi } from "onceflow/server";
import { beforeAll, describe, expect, inject, test } from "vitest";
import { runStatuses } from "../../src/core/runs/run.js";
import { hasDirective } from "../../src/transform/concerns.js";
import { transform } from "../../src/transform/transform.js";
import { acquire, type ProviderName } from "../servers/acquire.js";
import type { Acquired } from "../servers/acquire-from.js";
import { clientOf, queueNamed } from "../servers/brokers/sqs-queues.js";
import { freshTable } from "../servers/dynamodb/tables.js";
import { freshMongoDatabase } from "../servers/mongodb/databases.js";
import { freshDatabase } from "../servers/postgres/databases.js";
import type { Server } from "../servers/provider.js";
import type { Prelude } from "./docs/prelude.js";
import type { Ran } from "./docs/run-blocks.js";

/**
 * Every code block that is tagged ```ts in the docs is a module: it is type-checked, run, and what it prints is compared
 * with its comments.
 *
 *   console.log(result.status); // → executed
 *
 * Each `// →` is one printed line, in order; a block without any shows nothing and is refused. test/package/docs/prelude.ts says
 * what a block may use without declaring it. A block that reads the address of a server (`addresses` below) gets a new
 * database there, or is skipped where there is no server. A block tagged `ts no-run` is only type-checked, and has its reason below.
 */
const notRun: Readonly<Record<string, string>> = {};

/** What blocks read the address of a server from, and how they get a database of their own there. */
const addresses = {
  DATABASE_URL: { server: inject("postgres"), fresh: freshDatabase },
  MONGODB_URL: { server: inject("mongodb"), fresh: freshMongoDatabase },
  REDIS_URL: {
    server: inject("redis"),
    fresh: async (url: string) => ({ url: `${url}?prefix=docs-${randomUUID()}`, drop: async () => {} }),
  },
  DYNAMODB_URL: { server: inject("dynamodb"), fresh: async (url: string) => freshTable(url) },
  NATS_URL: startedFor("nats"),
  KAFKA_BROKERS: startedFor("kafka"),
  QUEUE_URL: { ...startedFor("sqs"), fresh: freshQueue },
  RABBITMQ_URL: {
    ...startedFor("rabbitmq"),
    without: process.env["ONCEFLOW_TEST_RABBITMQ_URL"]
      ? undefined
      : "its server takes long to start, and test/inbox/rabbitmq.test.ts has one; ONCEFLOW_TEST_RABBITMQ_URL runs it here",
  },
} satisfies Record<string, Addressed>;
type Address = keyof typeof addresses;

interface Addressed {
  server: { readonly ok: true; readonly url: string } | { readonly ok: false; readonly reason: string };
  /** Of a server that only some pages need: it is started for them. */
  readonly provider?: ProviderName;
  /** Why it is not started. */
  readonly without?: string | undefined;
  fresh(url: string): Promise<{ readonly url: string; readonly env?: NodeJS.ProcessEnv; drop(): Promise<void> }>;
}

function startedFor(provider: ProviderName): Addressed {
  return { server: { ok: false, reason: "not started" }, provider, fresh: async (url) => ({ url, drop: async () => {} }) };
}

/** The server of an address, and how it is stopped again. */
async function started(address: Addressed): Promise<() => Promise<void>> {
  if (address.provider === undefined) return async () => {};
  if (address.without !== undefined) {
    address.server = { ok: false, reason: address.without };
    return async () => {};
  }
  const acquired = (await acquire(address.provider)) as Acquired<Server>;
  address.server = acquired.ok ? { ok: true, url: acquired.running.url } : acquired;
  return acquired.ok ? () => acquired.running.stop() : async () => {};
}

/** What Amazon's clients read from the environment, and a queue. */
async function freshQueue(url: string) {
  const { hostname: AWS_REGION, username, password, searchParams } = new URL(url);
  const endpoint = searchParams.get("endpoint") ?? undefined;
  const client = clientOf(url);
  const made = await queueNamed(client, `docs-${randomUUID()}`, {});
  client.destroy();
  // The emulator's own name for it is that of a host that nobody knows.
  const queue = endpoint === undefined ? made : new URL(new URL(made).pathname, endpoint).href;
  const env = { AWS_REGION, AWS_ACCESS_KEY_ID: username, AWS_SECRET_ACCESS_KEY: password, AWS_ENDPOINT_URL_SQS: endpoint };
  return { url: queue, env, drop: async () => {} };
}

const root = resolve(import.meta.dirname, "../..");
const build = join(root, ".build/docs");
const outFolder = join(build, "out");
const pages = ["README.md", "ARCHITECTURE.md", ...markdownIn("docs")].filter((page) => existsSync(join(root, page)));

interface Block {
  readonly page: string;
  /** Of its first line of code. */
  readonly line: number;
  readonly code: string;
  readonly runs: boolean;
  /** Where it is written to, without extension. */
  readonly name: string;
  readonly printed: readonly string[];
  readonly needs: readonly Address[];
}

function markdownIn(folder: string): string[] {
  const files = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
  return files
    .filter((file) => file.endsWith(".md"))
    .map((file) => `${folder}/${file}`)
    .sort();
}

function textOf(page: string): string {
  return readFileSync(join(root, page), "utf8");
}

interface Fence {
  readonly tag: string;
  readonly line: number;
  readonly code: string;
}

function fencesOf(page: string): Fence[] {
  const fences: Fence[] = [];
  let open: { tag: string; line: number; lines: string[] } | undefined;
  for (const [i, text] of textOf(page).split("\n").entries()) {
    const fence = /^\s*```(.*)$/.exec(text);
    if (fence === null) open?.lines.push(text);
    else if (open === undefined) open = { tag: (fence[1] ?? "").trim(), line: i + 2, lines: [] };
    else {
      fences.push({ tag: open.tag, line: open.line, code: open.lines.join("\n") });
      open = undefined;
    }
  }
  return fences;
}

function blocksOf(page: string): Block[] {
  return fencesOf(page)
    .filter(({ tag }) => tag === "ts" || tag === "ts no-run")
    .map(({ tag, line, code }) => ({
      page,
      line,
      code,
      runs: tag === "ts",
      name: `${page.replace(/\.md$/, "").replaceAll("/", "-")}-${line}`,
      printed: [...code.matchAll(/\/\/ → (.*)$/gm)].map(([, text = ""]) => text.trimEnd()),
      needs: (Object.keys(addresses) as Address[]).filter((name) => code.includes(name)),
    }));
}

const blocks = pages.flatMap(blocksOf);

/** One compilation for all of them: it checks the types, and makes what Node 20 can run. */
function compile(): void {
  rmSync(build, { recursive: true, force: true });
  mkdirSync(build, { recursive: true });
  // An empty export makes a module of a block that imports nothing.
  for (const { name, code } of blocks) writeFileSync(join(build, `${name}.ts`), `${code}\nexport {};\n`);
  const names: readonly (keyof Prelude)[] = ["store", "provider", "mailer", "order", "delay"];
  writeFileSync(
    join(build, "globals.d.ts"),
    `import type { Prelude } from "../../test/package/docs/prelude.js";
declare global {
${names.map((name) => `  const ${name}: Prelude["${name}"];`).join("\n")}
}
`,
  );
  const compilerOptions = {
    rootDir: "../..",
    outDir: "out",
    declaration: false,
    sourceMap: false,
    noUnusedLocals: false,
    noUnusedParameters: false,
  };
  writeFileSync(
    join(build, "tsconfig.json"),
    JSON.stringify({
      extends: "../../tsconfig.base.json",
      compilerOptions,
      include: ["./*.ts", "../../test/package/docs/*.ts"],
      exclude: ["out"],
    }),
  );
  try {
    execFileSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", build, "--pretty", "false"], {
      cwd: root,
      encoding: "utf8",
    });
  } catch (error) {
    throw new Error(placesOf(String((error as { stdout?: string }).stdout)));
  }
  for (const { name, code } of blocks) if (hasDirective(code)) transformBlock(join(outFolder, `.build/docs/${name}.js`));
}

/** Every block with directives is app.ts in the reader's package, which is named "shop". */
function transformBlock(file: string): void {
  const readers = join(outFolder, "reader");
  mkdirSync(readers, { recursive: true });
  writeFileSync(join(readers, "package.json"), '{ "name": "shop" }');
  const code = transform(readFileSync(file, "utf8"), { file: join(readers, "app.ts"), root: readers })?.code;
  if (code !== undefined) writeFileSync(file, code);
}

/** The compiler's complaints, in terms of the page that holds the block. */
function placesOf(complaints: string): string {
  return complaints.replace(/^\.build\/docs\/(.+)\.ts\((\d+),(\d+)\)/gm, (_, name: string, line: string, column: string) => {
    const block = blocks.find((one) => one.name === name);
    return block ? `${block.page}:${block.line + Number(line) - 1}:${column}` : name;
  });
}

const runMsMax = 50_000;

function run(wanted: readonly Block[], env: NodeJS.ProcessEnv): Promise<Map<string, Ran>> {
  const ran = new Map<string, Ran>();
  if (wanted.length === 0) return Promise.resolve(ran);
  const urls = wanted.map(({ name }) => pathToFileURL(join(outFolder, `.build/docs/${name}.js`)).href);
  const child = fork(join(outFolder, "test/package/docs/run-blocks.js"), urls, {
    execArgv: [],
    silent: true,
    env: { ...process.env, ...env },
  });
  // biome-ignore lint/style/noRestrictedGlobals: a program that hangs is ended, so that its sample is named
  const tooLong = setTimeout(() => child.kill("SIGKILL"), runMsMax);
  child.on("message", (message) => {
    const { block, ...rest } = message as Ran;
    const name = wanted[urls.indexOf(block)]?.name ?? block;
    ran.set(name, { block, ...rest });
  });
  return new Promise((ended) =>
    child.once("close", () => {
      clearTimeout(tooLong);
      ended(ran);
    }),
  );
}

describe("the examples of", () => {
  beforeAll(compile, 120_000);

  describe.each(pages.filter((page) => blocks.some((block) => block.page === page)))("%s", (page) => {
    const own = blocks.filter((block) => block.page === page && block.runs);
    let ran = new Map<string, Ran>();
    beforeAll(async () => {
      const env: NodeJS.ProcessEnv = {};
      const drops: (() => Promise<void>)[] = [];
      for (const name of new Set(own.flatMap(({ needs }) => needs))) {
        const address: Addressed = addresses[name];
        const stop = await started(address);
        if (!address.server.ok) continue;
        const { url, drop, env: more = {} } = await address.fresh(address.server.url);
        Object.assign(env, more, { [name]: url });
        drops.push(drop, stop);
      }
      const wanted = own.filter(({ needs }) => needs.every((name) => addresses[name].server.ok));
      ran = await run(wanted, env);
      for (const drop of drops) await drop();
    }, 180_000);

    test.for(own)("line $line", ({ name, printed, needs }, { skip }) => {
      for (const { server } of needs.map((address): Addressed => addresses[address])) if (!server.ok) skip(server.reason);
      const result = ran.get(name);
      expect(result, "it did not come to its end").toBeDefined();
      expect(result?.error).toBeUndefined();
      expect(result?.lines).toEqual(printed);
    });
  });
});

describe("the pages", () => {
  test("have examples, each of which shows something", () => {
    expect(blocks.length).toBeGreaterThan(20);
    const silent = blocks.filter(({ runs, printed }) => runs && printed.length === 0);
    expect(silent.map(({ page, line }) => `${page}:${line}`)).toEqual([]);
  });

  test("have no code that no test runs, but for the reasons given", () => {
    const skipped = blocks.filter(({ runs }) => !runs).map(({ page, line }) => `${page}:${line}`);
    expect(skipped).toEqual(Object.keys(notRun));
    const untold = pages.flatMap((page) =>
      fencesOf(page)
        .filter(({ tag }) => /^(js|javascript|mjs|typescript|tsx|mts|ts .*)$/.test(tag) && tag !== "ts no-run")
        .map(({ tag, line }) => `${page}:${line} ${tag}`),
    );
    expect(untold).toEqual([]);
  });

  test("have links that lead somewhere", () => {
    const dead = pages.flatMap((page) =>
      [...textOf(page).matchAll(/\]\((?!https?:)([^)\s]*)\)/g)]
        .map(([, target = ""]) => target)
        .filter((target) => !leads(page, target))
        .map((target) => `${page} → ${target}`),
    );
    expect(dead).toEqual([]);
  });

  test("of the architecture name files that exist", () => {
    const files = ["src", "test"].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((file) => `/${folder}/${file}`),
    );
    const architecture = pages.filter((page) => page === "ARCHITECTURE.md" || page.startsWith("docs/internals/"));
    const missing = architecture.flatMap((page) =>
      [...textOf(page).matchAll(/(?<![<>*/\w.-])[\w./-]+\.ts\b/g)]
        .map(([path]) => path)
        // The rule of entry points, with letters in place of names.
        .filter((path) => path !== "src/exports/a/b.ts" && !files.some((file) => file.endsWith(`/${path}`)))
        .map((path) => `${page} names ${path}`),
    );
    expect(missing).toEqual([]);
  });

  test("say every option, error and warning that there is", () => {
    const reference = textOf("docs/reference/once.md");
    const names = [
      ...membersOf("src/core/ledger/options.ts", "OnceOptions"),
      ...membersOf("src/core/store/store-options.ts", "StoreOptions"),
      ...membersOf("src/stores/open-options.ts", "OpenOptions"),
    ];
    expect(names.length).toBeGreaterThan(15);
    const errors = Object.keys(onceflow).filter((name) => /Error$|^NotApplied$/.test(name));
    const { errors: codes } = sourceCodes((file) => !/^(workflow|flow|transform|graph|cli|http|inbox|outbox|server)\//.test(file));
    expect([...names, ...errors, ...codes].filter((name) => !reference.includes(`\`${name}\``))).toEqual([]);
    const operating = textOf("docs/guide/operating.md");
    expect(sourceCodes().warnings.filter((code) => !operating.includes(`\`${code}\``))).toEqual([]);
  });

  test("say every export, option, error, warning and event of workflows", () => {
    const codes = sourceCodes((file) => file.startsWith("workflow/"));
    const code = textOf("docs/reference/workflow.md");
    const said = [
      ...exportsOf("src/exports/workflow.ts"),
      ...membersOf("src/workflow/define/step-options.ts", "StepOptions"),
      ...membersOf("src/workflow/define/hook.ts", "HookOptions"),
      ...membersOf("src/workflow/process/worker-options.ts", "WorkerOptions"),
      ...membersOf("src/workflow/define/context.ts", "StepMetadata"),
      ...membersOf("src/workflow/define/context.ts", "WorkflowMetadata"),
      ...codes.errors,
      ...codes.warnings,
    ];
    expect(said.length).toBeGreaterThan(60);
    expect(said.filter((name) => !code.includes(`\`${name}\``))).toEqual([]);
    const api = textOf("docs/reference/workflow-api.md");
    const asked = [
      ...exportsOf("src/exports/workflow/api.ts"),
      ...membersOf("src/workflow/client/start.ts", "StartOptions"),
      ...membersOf("src/workflow/client/start.ts", "StartRequest"),
      ...["ResumeOptions", "ListRunsOptions", "RunSummary"].flatMap((name) => membersOf("src/workflow/client/api.ts", name)),
      ...["JournalOptions", "JournalItem"].flatMap((name) => membersOf("src/workflow/client/read-journal.ts", name)),
      ...runStatuses,
    ];
    expect(asked.length).toBeGreaterThan(60);
    expect(asked.filter((name) => !api.includes(`\`${name}\``))).toEqual([]);
  });

  test("have one row for every type of event in a journal, and no other", () => {
    const types = [...textOf("src/workflow/journal/event.ts").matchAll(/readonly type: "(\w+)"/g)].map(([, type = ""]) => type);
    expect(types.length).toBeGreaterThan(20);
    const [, table = ""] = textOf("docs/reference/workflow-api.md").split("| `type` | `id` | `detail` | means |\n");
    const rows = [...(table.split("\n\n")[0] ?? "").matchAll(/^\| `(\w+)` \|/gm)].map(([, type = ""]) => type);
    expect(rows.toSorted()).toEqual(types.toSorted());
  });

  test("say every option and error of the transform", () => {
    const page = textOf("docs/reference/transform.md");
    const { errors } = sourceCodes((file) => file.startsWith("transform/"));
    const said = [
      ...exportsOf("src/exports/transform.ts"),
      ...membersOf("src/bundlers/plugin-options.ts", "PluginOptions"),
      ...membersOf("src/transform/errors.ts", "Finding"),
      ...errors,
    ];
    expect(said.length).toBeGreaterThan(5);
    expect(said.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  });

  test("say every export, option, error, warning and event of flows", () => {
    const codes = sourceCodes((file) => file.startsWith("flow/"));
    const page = textOf("docs/reference/flow.md");
    const said = [
      ...exportsOf("src/exports/flow.ts").map((name) => name.replace(/^\w+ as /, "")),
      ...["StepOptions"].flatMap((name) => membersOf("src/flow/definition.ts", name)),
      ...membersOf("src/flow/run-options.ts", "RunOptions"),
      ...membersOf("src/flow/flow.ts", "FlowConfig"),
      ...membersOf("src/flow/result.ts", "FlowResult"),
      ...membersOf("src/flow/event.ts", "FlowHooks"),
      ...[...textOf("src/flow/event.ts").matchAll(/readonly type: "(\w+)"/g)].map(([, type = ""]) => type),
      ...codes.errors,
      ...codes.warnings,
    ];
    expect(said.length).toBeGreaterThan(60);
    expect(said.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  });

  test("say every export and option of the tools for tests", () => {
    const page = textOf("docs/reference/testing.md");
    const members = textOf("src/testing/runner/workflow-test.ts").split("export class WorkflowTest")[1] ?? "";
    const methods = [...members.matchAll(/^ {2}(?:async |get |readonly )?(?!constructor)(\w+)[<(:]/gm)].map(([, name = ""]) => name);
    const said = [
      ...exportsOf("src/exports/testing.ts"),
      ...membersOf("src/testing/runner/test-workflows.ts", "TestWorkflowsOptions"),
      ...methods,
    ];
    expect(said.length).toBeGreaterThan(70);
    expect(methods).toContain("waitForHook");
    // With its arguments, perhaps.
    expect(said.filter((name) => !page.includes(`\`${name}`))).toEqual([]);
  });

  test("say every export, option, member, error and metric of the outbox", () => {
    const { errors } = sourceCodes((file) => file.startsWith("outbox/"));
    const page = textOf("docs/reference/outbox.md");
    const said = [
      ...exportsOf("src/exports/outbox.ts"),
      ...["OutboxOptions", "RelayOptions"].flatMap((name) => membersOf("src/outbox/options.ts", name)),
      ...["NewMessage", "OutboxMessage"].flatMap((name) => membersOf("src/outbox/message.ts", name)),
      ...["OutboxDeadLetter<", "OutboxDeadLettersOptions"].flatMap((name) => membersOf("src/outbox/dead-letters.ts", name)),
      ...["OutboxPending", "OutboxRelay", "Outbox<"].flatMap((name) => membersOf("src/outbox/outbox.ts", name)),
      ...membersOf("src/outbox/publish.ts", "PublishContext"),
      ...membersOf("src/outbox/metrics.ts", "OutboxMetrics"),
      ...errors,
    ];
    expect(said.length).toBeGreaterThan(50);
    expect(said.filter((name) => !page.includes(`\`${name}\``) && !page.includes(`\`${name}(`))).toEqual([]);
  });

  test("say every export, option, limit, finding and command of flow documents", () => {
    const running = textOf("docs/reference/graph-runtime.md");
    const page = textOf("docs/reference/graph-documents.md") + running;
    const codes = sourceCodes((file) => file.startsWith("graph/runtime/"));
    const run = [
      ...membersOf("src/graph/runtime/runtime-options.ts", "RuntimeOptions"),
      ...membersOf("src/graph/runtime/trigger.ts", "TriggerOptions"),
      ...membersOf("src/graph/runtime/trigger.ts", "Triggered"),
      ...[...textOf("src/graph/runtime/views/event.ts").matchAll(/Of<"(\w+)">/g)].map(([, type = ""]) => type),
      ...[
        ...(textOf("src/graph/runtime/runtime.ts").split("export class Runtime")[1]?.split("\n}")[0] ?? "").matchAll(
          /^ {2}(?:async )?(?!constructor|start\b)(\w+)\(/gm,
        ),
      ].map(([, name = ""]) => name),
      ...codes.errors,
      ...codes.warnings,
    ];
    expect(run.length).toBeGreaterThan(50);
    expect(run.filter((name) => !running.includes(`\`${name}\``) && !running.includes(`\`${name}(`))).toEqual([]);
    const said = [
      ...exportsOf("src/exports/graph.ts"),
      ...membersOf("src/graph/load/load-flows.ts", "LoadOptions"),
      ...membersOf("src/graph/load/limits.ts", "Limits"),
      ...membersOf("src/graph/plan/plan.ts", "FlowPlan"),
      ...[...textOf("src/graph/findings/finding-codes.ts").matchAll(/^ {2}(FLOW_\w+):/gm)].map(([, code = ""]) => code),
    ];
    expect(said.length).toBeGreaterThan(90);
    expect(said.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
    const cli = textOf("docs/reference/cli.md");
    const commands = readdirSync(join(root, "src/cli/commands")).map((file) => textOf(`src/cli/commands/${file}`));
    const words = commands.flatMap((text) =>
      [...text.matchAll(/\.command\("([\w-]+)"|"(?:-\w, )?(--[\w-]+)/g)].map(([, command, option]) => command ?? option ?? ""),
    );
    expect(words.length).toBeGreaterThan(15);
    expect(words.filter((word) => !cli.includes(`\`${word}`))).toEqual([]);
  });

  test("say every export, option, problem, case, error and warning of HTTP", () => {
    const codes = sourceCodes((file) => file.startsWith("http/"));
    const page = textOf("docs/reference/http.md");
    const problems = textOf("src/http/problem.ts").split("const problems = {")[1]?.split("} as const")[0] ?? "";
    const said = [
      ...exportsOf("src/exports/http.ts"),
      ...membersOf("src/http/options.ts", "IdempotentOptions"),
      ...membersOf("src/http/client.ts", "ClientOptions"),
      ...membersOf("src/http/serve-operation.ts", "ServeOptions"),
      ...membersOf("src/http/conformance/target.ts", "ConformanceOptions"),
      ...[...problems.matchAll(/^ {2}"?([\w-]+)"?: \[/gm)].map(([, name = ""]) => name),
      ...[...textOf("src/http/conformance/cases.ts").matchAll(/name: "([\w-]+)"/g)].map(([, name = ""]) => name),
      ...codes.errors,
      ...codes.warnings,
    ];
    expect(said.length).toBeGreaterThan(90);
    expect(said.filter((name) => !page.includes(`\`${name}\``) && !page.includes(`\`${name}(`))).toEqual([]);
  });

  test("say every export, option, member, error and metric of the inbox", () => {
    const { errors } = sourceCodes((file) => /^inbox\/(?!adapters\/)/.test(file));
    const page = textOf("docs/reference/inbox.md");
    const said = [
      ...exportsOf("src/exports/inbox.ts"),
      ...["ConsumerOptions", "InboxOptions", "OperationInboxOptions"].flatMap((name) => membersOf("src/inbox/options.ts", name)),
      ...["DeadLetter extends", "DeadLetterHistory", "DeadLettersOptions"].flatMap((name) => membersOf("src/inbox/dead-letters.ts", name)),
      ...membersOf("src/inbox/message.ts", "MessageContext"),
      ...membersOf("src/inbox/handled.ts", "InboxMetrics"),
      ...membersOf("src/inbox/inbox.ts", "Inbox extends"),
      ...["keyed", "operation", "refuse"],
      ...[...textOf("src/inbox/handled.ts").matchAll(/status: "(\w+)"/g)].map(([, status = ""]) => status),
      ...errors,
    ];
    expect(said.length).toBeGreaterThan(60);
    expect(said.filter((name) => !page.includes(`\`${name}\``) && !page.includes(`\`${name}(`))).toEqual([]);
  });

  test("say every export, option and error of the inbox's adapters", () => {
    const { errors } = sourceCodes((file) => file.startsWith("inbox/adapters/"));
    const page = textOf("docs/reference/inbox-adapters.md");
    const adapters = ["kafka", "nats", "rabbitmq", "redis-streams", "sqs", "bullmq"].map((name) => `src/inbox/adapters/${name}.ts`);
    const said = [
      ...adapters.flatMap((file) =>
        [...textOf(file).matchAll(/^export (?:async )?(?:function|interface|type) (\w+)/gm)].map(([, name = ""]) => name),
      ),
      ...adapters.flatMap((file) =>
        [...textOf(file).matchAll(/export interface (\w+Options)/g)].flatMap(([, name = ""]) => membersOf(file, name)),
      ),
      ...membersOf("src/inbox/adapters/consuming.ts", "ConsumeOptions"),
      ...errors,
    ];
    expect(said.length).toBeGreaterThan(35);
    expect(said.filter((name) => !page.includes(`\`${name}\``) && !page.includes(`\`${name}(`))).toEqual([]);
  });

  test("say every export, option, route, problem and error of the HTTP API", () => {
    const { errors, warnings } = sourceCodes((file) => file.startsWith("server/"));
    const page = textOf("docs/reference/server.md");
    const problems = textOf("src/server/problem.ts").split("const problems = {")[1]?.split("} as const")[0] ?? "";
    const said = [
      ...exportsOf("src/exports/server.ts"),
      ...membersOf("src/server/options.ts", "AppOptions"),
      ...membersOf("src/server/serve.ts", "ServeOptions"),
      ...[...problems.matchAll(/^ {2}"?([\w-]+)"?: \[/gm)].map(([, name = ""]) => name),
      ...errors,
      ...warnings,
    ];
    expect(said.length).toBeGreaterThan(35);
    expect(said.filter((name) => !page.includes(`\`${name}\``) && !page.includes(`\`${name}(`))).toEqual([]);
    const paths = Object.keys(openApi.paths).map((path) => (/\/(resume|archive)$/.exec(path) ?? [path])[0]);
    expect(paths.filter((path) => !page.includes(path))).toEqual([]);
  });

  test("promise of effects elsewhere only what can be kept", () => {
    const page = "docs/guide/transactions.md";
    const promising = pages.filter((one) => one.startsWith("docs/") && one !== page && /exactly[ -]once/i.test(textOf(one)));
    expect(promising).toEqual([]);
    expect(textOf(page).match(/exactly[ -]once(?! in that database)/gi) ?? []).toEqual([]);
  });
});

function membersOf(file: string, name: string): string[] {
  const body = textOf(file).split(`export interface ${name}`)[1]?.split("\n}")[0] ?? "";
  const members = [...body.matchAll(/^ {2}readonly (\w+)\??:/gm)].map(([, member = ""]) => member);
  expect(members, `the members of ${name} in ${file}`).not.toEqual([]);
  return members;
}

/** Of a file that only puts others together. */
function exportsOf(file: string): string[] {
  const lists = [...textOf(file).matchAll(/^export (?:type )?\{([^}]*)\}/gm)].map(([, list = ""]) => list);
  return lists.flatMap((list) => list.split(",").map((name) => name.trim().replace(/^.* as |^type /, ""))).filter((name) => name !== "");
}

function sourceCodes(of: (file: string) => boolean = () => true): { readonly errors: string[]; readonly warnings: string[] } {
  const src = join(root, "src");
  // Tests, and the tests that are part of the product, have codes of their own invention.
  const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter(
    (file) => /^(?!testing\/).*(?<!\.test)\.ts$/.test(file) && of(file),
  );
  const codes = files.flatMap((file) =>
    [...readFileSync(join(src, file), "utf8").matchAll(/code: "([A-Z_]+)"/g)].map(([, code = ""]) => code),
  );
  const all = [...new Set(codes)].sort();
  return { errors: all.filter((code) => !code.startsWith("ONCEFLOW_")), warnings: all.filter((code) => code.startsWith("ONCEFLOW_")) };
}

function leads(page: string, target: string): boolean {
  const [path = "", anchor] = target.split("#");
  const file = path === "" ? join(root, page) : resolve(root, dirname(page), path);
  if (!existsSync(file)) return false;
  if (anchor === undefined) return true;
  const headings = readFileSync(file, "utf8").matchAll(/^#+ (.*)$/gm);
  return [...headings].some(([, heading = ""]) => slug(heading) === anchor);
}

/** As GitHub makes anchors of headings. */
function slug(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}
