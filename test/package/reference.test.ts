import { readdirSync } from "node:fs";
import { join } from "node:path";
import * as onceflow from "onceflow";
import { openApi } from "onceflow/server";
import { describe, expect, test } from "vitest";
import { runStatuses } from "../../src/core/runs/run.js";
import { exportsOf, membersOf, sourceCodes } from "./docs/documented.js";
import { root, textOf } from "./docs/pages.js";

describe("the pages", () => {
  test("document every option, error and warning", () => {
    const reference = textOf("docs/reference/once.md");
    const names = [
      ...membersOf("src/core/ledger/options.ts", "OnceOptions"),
      ...membersOf("src/core/store/store-options.ts", "StoreOptions"),
      ...membersOf("src/stores/open-options.ts", "OpenOptions"),
    ];
    expect(names.length).toBeGreaterThan(15);
    const errors = Object.keys(onceflow).filter((name) => /Error$|^NotApplied$/.test(name));
    const { errors: codes } = sourceCodes(
      (file) => !/^(workflow|flow|transform|graph|cli|http|inbox|outbox|alerts|server|operate)\//.test(file),
    );
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
      ...membersOf("src/workflow/client/api.ts", "ResumeOptions"),
      ...["ListRunsOptions", "RunSummary"].flatMap((name) => membersOf("src/workflow/client/search/list-runs.ts", name)),
      ...membersOf("src/workflow/client/search/filters.ts", "RunSearch"),
      ...["JournalOptions", "JournalItem"].flatMap((name) => membersOf("src/workflow/client/read-journal.ts", name)),
      ...runStatuses,
    ];
    expect(asked.length).toBeGreaterThan(60);
    expect(asked.filter((name) => !api.includes(`\`${name}\``))).toEqual([]);
    const searches = textOf("docs/reference/searches.md");
    const searched = [
      ...membersOf("src/workflow/client/search/filters.ts", "RunSearch"),
      ...membersOf("src/workflow/client/search/list-hooks.ts", "ListHooksOptions"),
      ...["ErrorTextOptions", "ErrorTextPage"].flatMap((name) => membersOf("src/workflow/client/search/find-error-text.ts", name)),
    ];
    expect(searched.filter((name) => !searches.includes(`\`${name}\``) && !searches.includes(` ${name}`))).toEqual([]);
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

  test("document every export, channel, type and member of events", () => {
    const page = textOf("docs/reference/events.md");
    const source = textOf("src/core/events/event.ts");
    const channels = [...source.matchAll(/readonly "(onceflow:\w+)"/g)].map(([, name = ""]) => name);
    const members = [...source.matchAll(/readonly (\w+):/g)].map(([, name = ""]) => name);
    const types = [...source.matchAll(/readonly (?:type|outcome|verdict|kind): ([^;]+)/g)].flatMap(([, union = ""]) =>
      [...union.matchAll(/"(\w+)"/g)].map(([, name = ""]) => name),
    );
    expect(channels.length + members.length + types.length).toBeGreaterThan(80);
    const said = [...exportsOf("src/exports/events.ts"), ...types, ...members, ...channels];
    const isSaid = (name: string) => page.includes(`\`${name}\``) || page.includes(`\`${name}(`) || page.includes(`"${name}"`);
    expect([...new Set(said)].filter((name) => !isSaid(name) && !page.includes(`## ${name}`))).toEqual([]);
  });

  test("document every export, option, member and error of alerts", () => {
    const { errors } = sourceCodes((file) => file.startsWith("alerts/"));
    const page = textOf("docs/reference/alerts.md");
    const said = [
      ...exportsOf("src/exports/alerts.ts"),
      ...["AlertOptions", "AlertWebhook", "AlertContext"].flatMap((name) => membersOf("src/alerts/options.ts", name)),
      ...membersOf("src/alerts/alert.ts", "RunAlert"),
      ...membersOf("src/alerts/alerts.ts", "Alerts"),
      ...["WEBHOOK_UNREACHABLE", "WEBHOOK_STATUS", "WEBHOOK_REFUSED"],
      ...errors,
    ];
    expect(said.length).toBeGreaterThan(30);
    expect(said.filter((name) => !page.includes(`\`${name}`) && !page.includes(`${name} `) && !page.includes(`${name} }\``))).toEqual([]);
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
    const files = readdirSync(join(root, "src/cli/commands"), { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
    const commands = files.map((file) => textOf(`src/cli/commands/${file}`));
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
    const page = textOf("docs/reference/server.md") + textOf("docs/reference/api.md");
    const problemsOf = (file: string) => textOf(file).split("const problems = {")[1]?.split("} as const")[0] ?? "";
    const problems = problemsOf("src/server/problem.ts") + problemsOf("src/server/api/problems.ts");
    const said = [
      ...exportsOf("src/exports/server.ts"),
      ...membersOf("src/server/options.ts", "AppOptions"),
      ...membersOf("src/server/serve.ts", "ServeOptions"),
      ...membersOf("src/server/serve.ts", "ServeStoreOptions"),
      ...membersOf("src/server/api/options.ts", "ApiOptions"),
      ...membersOf("src/server/api/caller.ts", "ApiCaller"),
      ...[...problems.matchAll(/^ {2}"?([\w-]+)"?: \[/gm)].map(([, name = ""]) => name),
      ...errors,
      ...warnings,
    ];
    expect(said.length).toBeGreaterThan(35);
    expect(said.filter((name) => !page.includes(`\`${name}\``) && !page.includes(`\`${name}(`))).toEqual([]);
    const paths = Object.keys(openApi.paths).map((path) => (/\/(resume|archive)$/.exec(path) ?? [path])[0]);
    expect(paths.filter((path) => !page.includes(path))).toEqual([]);
  });
});
