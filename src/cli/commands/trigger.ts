import { type Command, InvalidArgumentError } from "commander";
import type { FlowPlan } from "../../exports/graph.js";
import { InvalidInputError } from "../../exports/index.js";
import { sentBy } from "../../graph/runtime/flows/routes.js";
import { apiClient } from "../api-client.js";
import { withClientRuntime } from "../client-runtime.js";
import { addDocumentOptions, type DocumentOptions, loadOptionsFrom, settingsFor } from "../document-options.js";
import { exitFound } from "../exit-codes.js";
import { loadPlans } from "../load-plans.js";
import { storeOption } from "../open-store.js";
import { print, printJson } from "../output.js";
import { payloadOf } from "../payload-argument.js";
import { tokenOf } from "../token.js";
import { usableRegistry } from "../usable-registry.js";

interface Options extends DocumentOptions {
  readonly file?: readonly string[];
  readonly registry?: string;
  readonly store?: string;
  readonly url?: string;
  readonly tokenFile?: string;
  readonly key?: string;
  readonly entry?: string;
  readonly wait?: number | true;
  readonly json?: boolean;
}

export function addTrigger(program: Command): void {
  const command = program
    .command("trigger")
    .description("Trigger a flow: send it a packet, which a process that runs the flow delivers")
    .argument("<flow>", "id of the flow")
    .argument("[payload]", 'JSON, @file, or - for standard input (default: "{}")')
    .option("--file <paths...>", "document of the flow (default: `paths` of .flowdslrc; required without --url)")
    .option("--registry <file>", "registry of node servers: sources that it has check their payload themselves")
    .option("--key <key>", "idempotency key: triggering again with the same key returns the first execution")
    .option("--entry <node>", "entry point to trigger (required if several)")
    .option(
      "--wait [seconds]",
      "wait until the execution ends, 60 seconds by default; exit code 1 if it has dead letters or is still running",
      seconds,
    )
    .addOption(storeOption())
    .option("--url <server>", "send the packet through the HTTP API of this server instead of the store")
    .option("--token-file <file>", "file with the server's token (or set ONCEFLOW_TOKEN)")
    .option("--json", "print JSON");
  addDocumentOptions(command).action(trigger);
}

interface TriggerReport {
  readonly executionId?: string | undefined;
  readonly status: string;
  /** With --wait: the status of the execution. */
  readonly execution?: string;
}

async function trigger(flow: string, argument: string | undefined, options: Options): Promise<void> {
  const payload = await payloadOf(argument);
  const waitMs = options.wait === undefined ? 0 : (options.wait === true ? 60 : options.wait) * 1000;
  const report =
    options.url === undefined ? await byStore(flow, payload, waitMs, options) : await byServer(options.url, flow, payload, waitMs, options);
  if (options.json) printJson(report);
  else print([report.status, report.executionId, report.execution].filter((word) => word !== undefined).join("  "));
  if (report.execution !== undefined && report.execution !== "completed") process.exitCode = exitFound;
}

type Payload = Awaited<ReturnType<typeof payloadOf>>;

async function byStore(flow: string, payload: Payload, waitMs: number, options: Options): Promise<TriggerReport> {
  const { store, key, entry } = options;
  const settings = await settingsFor(options);
  const file = options.file ?? settings.paths ?? [];
  if (file.length === 0)
    throw new InvalidInputError("file", "trigger requires the flow's document (--file) or a server that runs it (--url)");
  const load = loadOptionsFrom(options, settings);
  const documents = await loadPlans(file, load);
  const registry = options.registry ?? settings.registry;
  const remote = registry === undefined ? undefined : (await usableRegistry(registry)).nodes;
  for (const plan of documents) if (plan.id === flow) checkSource(plan, entry, payload, (operationId) => remote?.has(operationId) ?? false);
  return await withClientRuntime({ store, documents, create: true, load }, async (runtime) => {
    const plan = runtime.plan(flow);
    if (plan?.entries.some(({ delivery }) => delivery.mode === "direct"))
      throw new InvalidInputError(
        "flow",
        `"${flow}" stores nothing: all its edges are direct or ephemeral, so only a process with its nodes can run it; use --url`,
      );
    const { executionId, status, mismatch } = await runtime.trigger(flow, entry, payload, key === undefined ? {} : { key });
    if (mismatch)
      throw new InvalidInputError("key", "was already used with a different payload or entry point; use a new key for a new trigger");
    if (executionId === undefined || waitMs === 0) return { executionId, status };
    const until = AbortSignal.timeout(waitMs);
    const ended = await runtime.wait(executionId, { signal: until }).catch((error: unknown) => {
      if (until.aborted) return { status: "running" };
      throw error;
    });
    return { executionId, status, execution: ended.status };
  });
}

/**
 * Rejects a payload that `run --trigger` would reject. A source without a node passes its payload on unchanged, so the payload
 * must match the packet that the source sends; a source with a node must declare its input in the document.
 */
function checkSource(
  { entries, nodes }: FlowPlan,
  entry: string | undefined,
  payload: Payload,
  isRemote: (operationId: string) => boolean,
): void {
  const entered = entries.filter(({ node }) => entry === undefined || node === entry);
  const [only, second] = entered;
  const source = only && second === undefined && only.packet === undefined ? nodes.get(only.node) : undefined;
  const type = source?.kind === "source" && !isRemote(source.operationId) ? sentBy(source) : undefined;
  const problems = type?.check(payload) ?? [];
  if (problems.length === 0) return;
  const why = problems.map(({ pointer, message }) => `${pointer || "/"} ${message}`).join("; ");
  throw new InvalidInputError(
    "payload",
    `does not match ${type?.name}, which source "${source?.id}" passes on: ${why}. If a node implements the source and takes another packet, declare it in the source's inputs`,
    problems,
  );
}

async function byServer(
  url: string,
  flow: string,
  payload: Payload,
  waitMs: number,
  { tokenFile, key, entry }: Options,
): Promise<TriggerReport> {
  const call = apiClient(url, await tokenOf(tokenFile));
  const query = entry === undefined ? "" : `?entry=${encodeURIComponent(entry)}`;
  const headers = { "content-type": "application/json", ...(key === undefined ? {} : { "idempotency-key": quoted(key) }) };
  const { body } = await call(`/flows/${encodeURIComponent(flow)}/trigger${query}`, {
    method: "POST",
    headers,
    body: JSON.stringify(payload),
  });
  const report = body as unknown as TriggerReport;
  if (report.executionId === undefined || waitMs === 0) return report;
  for (let left = waitMs / 1000; ; left -= 30) {
    const execution = await call(`/executions/${report.executionId}?wait=${Math.ceil(Math.min(left, 30))}`);
    const status = String(execution.body["status"]);
    if (status !== "running" || left <= 30) return { ...report, execution: status };
  }
}

/** The key as a structured-field string (RFC 9651). */
function quoted(key: string): string {
  if (!/^[\x20-\x7e]+$/.test(key)) throw new InvalidInputError("key", "must be printable ASCII, because it is sent in a header");
  return `"${key.replace(/["\\]/g, "\\$&")}"`;
}

function seconds(text: string): number {
  const value = Number(text);
  if (/^\d{1,6}$/.test(text) && value > 0) return value;
  throw new InvalidArgumentError("Expected a number of seconds.");
}
