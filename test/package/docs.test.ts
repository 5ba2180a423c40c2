import { execFileSync, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import * as onceflow from "onceflow";
import { openApi } from "onceflow/server";
import { createClient } from "redis";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { runStatuses } from "../../src/core/runs/run.js";
import { hasDirective } from "../../src/transform/concerns.js";
import { transform } from "../../src/transform/transform.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { acquire, type ProviderName } from "../servers/acquire.js";
import type { Acquired } from "../servers/acquire-from.js";
import { clientOf, queueNamed } from "../servers/brokers/sqs-queues.js";
import { freshTable } from "../servers/dynamodb/tables.js";
import { freshMongoDatabase } from "../servers/mongodb/databases.js";
import { freshDatabase } from "../servers/postgres/databases.js";
import type { Server } from "../servers/provider.js";
import type { Ran } from "./docs/run-sample.js";
import { fencesIn, type Sample, samplesIn } from "./docs/samples.js";

/**
 * Every sample of the docs (test/package/docs/samples.ts) is type-checked as printed, and run in its own process and an empty folder.
 * The lines that it prints are compared with its comments:
 *
 *   console.log(result.status); // → executed
 *
 * A sample that prints nothing is rejected. A sample that needs a server (`addresses` below) gets a new database there, or is skipped with
 * the reason. A sample tagged `ts no-run` is only type-checked, and needs a reason here, by page and first line of code.
 */
const notRun: Readonly<Record<string, string>> = {
  "docs/guide/directives.md // next.config.ts": "Next.js reads it; examples/nextjs-stripe is built by npm run test:examples",
  "docs/guide/testing-your-code.md // vitest.config.ts": "Vitest reads it; test/workflow/compat/vitest.test.ts tests the plugin",
};

/** Environment variables from which samples read the address of a server, and how each sample gets its own database there. */
const addresses = {
  DATABASE_URL: { server: inject("postgres"), fresh: freshDatabase },
  MONGODB_URL: { server: inject("mongodb"), fresh: freshMongoDatabase },
  REDIS_URL: { server: inject("redis"), fresh: emptyRedis },
  DYNAMODB_URL: { server: inject("dynamodb"), fresh: freshTables, usedBy: /DYNAMODB_URL|new DynamoDBClient/ },
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

interface Addressed {
  server: { readonly ok: true; readonly url: string } | { readonly ok: false; readonly reason: string };
  /** The provider of a server that only some pages need: it is started for them. */
  readonly provider?: ProviderName;
  /** The reason why it is not started. */
  readonly without?: string | undefined;
  /** Code that needs the server; by default, code that names the variable. */
  readonly usedBy?: RegExp;
  fresh(url: string): Promise<{ readonly url: string; readonly env?: NodeJS.ProcessEnv; drop(): Promise<void> }>;
}

function startedFor(provider: ProviderName): Addressed {
  return { server: { ok: false, reason: "not started" }, provider, fresh: async (url) => ({ url, drop: async () => {} }) };
}

/** Starts the server of an address, and returns a function that stops it. */
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

/** A database of the Redis server that no other test uses. */
async function emptyRedis(server: string) {
  const url = new URL("/9", server).href;
  const client = await createClient({ url }).connect();
  await client.flushDb();
  client.destroy();
  return { url, drop: async () => {} };
}

/** The URL of a new table, and the environment of a `new DynamoDBClient({})`. */
async function freshTables(server: string) {
  return { ...freshTable(server), env: amazonEnvironment(server, "DYNAMODB") };
}

/** A queue, and the environment of a `new SQS({})`. */
async function freshQueue(server: string) {
  const client = clientOf(server);
  const made = await queueNamed(client, `docs-${randomUUID()}`, {});
  client.destroy();
  const endpoint = new URL(server).searchParams.get("endpoint") ?? undefined;
  // The emulator returns a URL with a host name that does not resolve.
  const url = endpoint === undefined ? made : new URL(new URL(made).pathname, endpoint).href;
  return { url, env: amazonEnvironment(server, "SQS"), drop: async () => {} };
}

function amazonEnvironment(server: string, service: "SQS" | "DYNAMODB"): NodeJS.ProcessEnv {
  const { hostname: AWS_REGION, username, password, searchParams } = new URL(server);
  const endpoint = searchParams.get("endpoint") ?? undefined;
  return { AWS_REGION, AWS_ACCESS_KEY_ID: username, AWS_SECRET_ACCESS_KEY: password, [`AWS_ENDPOINT_URL_${service}`]: endpoint };
}

const root = resolve(import.meta.dirname, "../..");
const build = join(root, ".build/docs");
const outFolder = join(build, "out");
const pages = ["README.md", "ARCHITECTURE.md", ...markdownIn("docs")].filter((page) => existsSync(join(root, page)));

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

function fencesOf(page: string) {
  return fencesIn(textOf(page));
}

const samples = pages.flatMap((page) => samplesIn(page, textOf(page)));

function codeOf({ files }: Sample): string {
  return files.map(({ code }) => code).join("\n");
}

function addressesOf(sample: Sample): [name: string, address: Addressed][] {
  const code = codeOf(sample);
  return Object.entries<Addressed>(addresses).filter(([name, { usedBy }]) => usedBy?.test(code) ?? code.includes(name));
}

/** Compiles all samples together: checks their types, and produces JavaScript for Node 20. Returns the compiler's errors by sample. */
function compile(): Map<string, string[]> {
  rmSync(build, { recursive: true, force: true });
  for (const { name, files } of samples) {
    mkdirSync(join(build, name), { recursive: true });
    // An empty export turns a file without imports into a module.
    for (const file of files) writeFileSync(join(build, name, file.name), `${file.code}\nexport {};\n`);
  }
  const compilerOptions = {
    rootDir: "../..",
    outDir: "out",
    declaration: false,
    sourceMap: false,
    noUnusedLocals: false,
    noUnusedParameters: false,
    rewriteRelativeImportExtensions: true,
  };
  writeFileSync(
    join(build, "tsconfig.json"),
    JSON.stringify({
      extends: "../../tsconfig.base.json",
      compilerOptions,
      include: ["./*/*.ts", "../../test/package/docs/run-sample.ts"],
      exclude: ["out"],
    }),
  );
  const errors = typeErrors();
  for (const sample of samples) if (hasDirective(codeOf(sample))) for (const file of sample.files) transformFile(sample, file.name);
  return errors;
}

function typeErrors(): Map<string, string[]> {
  const errors = new Map<string, string[]>();
  try {
    execFileSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", build, "--pretty", "false"], {
      cwd: root,
      encoding: "utf8",
    });
  } catch (error) {
    const output = String((error as { stdout?: string }).stdout);
    for (const line of output.split("\n").filter((text) => /^\S/.test(text))) {
      const [, name = "", file = "", at = "", rest = ""] = /^\.build\/docs\/([^/]+)\/([^/(]+)\((\d+)(.*)$/.exec(line) ?? [];
      const sample = samples.find((one) => one.name === name);
      if (sample === undefined) throw new Error(output, { cause: error });
      const first = sample.files.find((one) => one.name === file)?.line ?? sample.line;
      errors.set(name, [...(errors.get(name) ?? []), `${sample.page}:${first + Number(at) - 1} (${rest.replace(/^,/, "")}`]);
    }
  }
  return errors;
}

function compiled({ name }: Sample, file: string): string {
  return join(outFolder, ".build/docs", name, file.replace(/\.ts$/, ".js"));
}

/** Files with directives belong to the package of the reader, which is named "shop". */
function transformFile(sample: Sample, name: string): void {
  const readers = join(outFolder, "reader");
  mkdirSync(readers, { recursive: true });
  writeFileSync(join(readers, "package.json"), '{ "name": "shop" }');
  const file = compiled(sample, name);
  const code = transform(readFileSync(file, "utf8"), { file: join(readers, name), root: readers })?.code;
  if (code !== undefined) writeFileSync(file, code);
}

const runMsMax = 50_000;

/** Runs a sample in an empty folder. Returns undefined if the process ended or was killed before the end of the sample. */
function run(sample: Sample, cwd: string, env: NodeJS.ProcessEnv): Promise<Ran | undefined> {
  const entry = compiled(sample, sample.files.at(-1)?.name ?? "");
  const child = fork(join(outFolder, "test/package/docs/run-sample.js"), [pathToFileURL(entry).href], {
    execArgv: [],
    silent: true,
    cwd,
    env: { ...process.env, ...env },
  });
  // biome-ignore lint/style/noRestrictedGlobals: a program that hangs is ended, so that its sample is named
  const tooLong = setTimeout(() => child.kill("SIGKILL"), runMsMax);
  let ran: Ran | undefined;
  child.on("message", (message) => {
    ran = message as Ran;
  });
  return new Promise((ended) =>
    child.once("close", () => {
      clearTimeout(tooLong);
      ended(ran);
    }),
  );
}

describe("the samples of", () => {
  let errors = new Map<string, string[]>();
  beforeAll(() => {
    errors = compile();
  }, 120_000);

  describe.each(pages.filter((page) => samples.some((sample) => sample.page === page)))("%s", (page) => {
    const own = samples.filter((sample) => sample.page === page);
    const stops: (() => Promise<void>)[] = [];
    beforeAll(async () => {
      const needed = new Map(own.filter(({ runs }) => runs).flatMap(addressesOf));
      for (const address of needed.values()) stops.push(await started(address));
    }, 180_000);
    afterAll(async () => {
      for (const stop of stops) await stop();
    });

    test.for(own)("line $line", async (sample, { skip }) => {
      expect(errors.get(sample.name) ?? []).toEqual([]);
      if (!sample.runs) return;
      const env: NodeJS.ProcessEnv = {};
      for (const [name, { server, fresh }] of addressesOf(sample)) {
        if (!server.ok) return skip(server.reason);
        const { url, drop, env: more = {} } = await fresh(server.url);
        onTestFinished(drop);
        Object.assign(env, more, { [name]: url });
      }
      const result = await run(sample, temporaryFolder(onTestFinished), env);
      expect(result, "the sample did not run to its end").toBeDefined();
      expect(result?.error).toBeUndefined();
      expect(result?.lines).toEqual(sample.printed);
    });
  });
});

describe("the pages", () => {
  test("have samples, each of which prints something", () => {
    expect(samples.length).toBeGreaterThan(20);
    const silent = samples.filter(({ runs, printed }) => runs && printed.length === 0);
    expect(silent.map(({ page, line }) => `${page}:${line}`)).toEqual([]);
  });

  test("have no code that is neither checked nor run, except with a reason", () => {
    const skipped = samples.filter(({ runs }) => !runs).map(({ page, files }) => `${page} ${files[0]?.code.split("\n")[0]}`);
    expect(skipped.toSorted()).toEqual(Object.keys(notRun).toSorted());
    const unchecked = pages.flatMap((page) =>
      fencesOf(page)
        .filter(({ tag, code }) => isCode(tag, code))
        // Programs of other systems, whose packages are not installed here.
        .filter(({ tag }) => !(tag === "ts peer" && page.startsWith("docs/guide/coming-from/")))
        // Run by commonjs.test.ts.
        .filter(({ tag, code }) => !(tag === "js" && code.startsWith("// jest.config.js\n")))
        .map(({ tag, line }) => `${page}:${line} ${tag}`),
    );
    expect(unchecked).toEqual([]);
  });

  test("have no broken links", () => {
    const dead = [...pages, "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "test/README.md", "sdk/python/README.md"].flatMap((page) =>
      [...textOf(page).matchAll(/\]\((?!https?:)([^)\s]*)\)/g)]
        .map(([, target = ""]) => target)
        .filter((target) => !isValidLink(page, target))
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

  test("document every option, error and warning", () => {
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

  test("document every export, option, error, warning and event of workflows", () => {
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

  test("document every option and error of the transform", () => {
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

  test("document every export, option, error, warning and event of flows", () => {
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

  test("document every export and option of the testing tools", () => {
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
    // The name may be followed by its arguments.
    expect(said.filter((name) => !page.includes(`\`${name}`))).toEqual([]);
  });

  test("document every export, option, member, error and metric of the outbox", () => {
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

  test("document every export, option, error and warning of remote nodes", () => {
    const codes = sourceCodes((file) => file.startsWith("graph/remote/"));
    const page = textOf("docs/reference/remote-nodes.md");
    const said = [
      ...exportsOf("src/exports/graph/remote.ts"),
      ...membersOf("src/graph/remote/server/options.ts", "NodeServerOptions"),
      ...membersOf("src/graph/remote/client/options.ts", "NodeClientOptions"),
      ...membersOf("src/graph/remote/client/remote-node.ts", "RemoteNodeOptions"),
      ...codes.errors,
      ...codes.warnings,
    ];
    expect(said.length).toBeGreaterThan(40);
    expect(said.filter((name) => !page.includes(`\`${name}\``) && !page.includes(`\`${name}(`))).toEqual([]);
  });

  test("document every export, option, limit, finding and command of flow documents", () => {
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

  test("document every export, option, problem, case, error and warning of HTTP", () => {
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

  test("document every export, option, member, error and metric of the inbox", () => {
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

  test("document every export, option and error of the inbox's adapters", () => {
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

  test("document every export, option, route, problem and error of the HTTP API", () => {
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

  test("do not promise exactly-once effects outside of the database", () => {
    const page = "docs/guide/transactions.md";
    const promising = pages.filter((one) => one.startsWith("docs/") && one !== page && /exactly[ -]once/i.test(textOf(one)));
    expect(promising).toEqual([]);
    expect(textOf(page).match(/exactly[ -]once(?! in that database)/gi) ?? []).toEqual([]);
  });
});

/** Whether a fence has JavaScript or TypeScript, tagged or not, that is not part of a sample. */
function isCode(tag: string, code: string): boolean {
  if (tag === "ts" || tag === "ts no-run") return false;
  return /^(js|javascript|mjs|typescript|tsx|mts|ts .*)$/.test(tag) || (tag === "" && /^(import .* from|export |const )/m.test(code));
}

function membersOf(file: string, name: string): string[] {
  const body = textOf(file).split(`export interface ${name}`)[1]?.split("\n}")[0] ?? "";
  const members = [...body.matchAll(/^ {2}readonly (\w+)\??:/gm)].map(([, member = ""]) => member);
  expect(members, `the members of ${name} in ${file}`).not.toEqual([]);
  return members;
}

/** The exported names of a file that only re-exports. */
function exportsOf(file: string): string[] {
  const lists = [...textOf(file).matchAll(/^export (?:type )?\{([^}]*)\}/gm)].map(([, list = ""]) => list);
  return lists.flatMap((list) => list.split(",").map((name) => name.trim().replace(/^.* as |^type /, ""))).filter((name) => name !== "");
}

function sourceCodes(of: (file: string) => boolean = () => true): { readonly errors: string[]; readonly warnings: string[] } {
  const src = join(root, "src");
  // Tests, and the testing tools of the product, use codes of their own.
  const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter(
    (file) => /^(?!testing\/).*(?<!\.test)\.ts$/.test(file) && of(file),
  );
  const codes = files.flatMap((file) =>
    [...readFileSync(join(src, file), "utf8").matchAll(/code: "([A-Z_]+)"/g)].map(([, code = ""]) => code),
  );
  const all = [...new Set(codes)].sort();
  return { errors: all.filter((code) => !code.startsWith("ONCEFLOW_")), warnings: all.filter((code) => code.startsWith("ONCEFLOW_")) };
}

function isValidLink(page: string, target: string): boolean {
  const [path = "", anchor] = target.split("#");
  const file = path === "" ? join(root, page) : resolve(root, dirname(page), path);
  if (!existsSync(file)) return false;
  if (anchor === undefined) return true;
  const headings = readFileSync(file, "utf8").matchAll(/^#+ (.*)$/gm);
  return [...headings].some(([, heading = ""]) => slug(heading) === anchor);
}

/** The anchor of a heading, in GitHub's form. */
function slug(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}
