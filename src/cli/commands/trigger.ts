import { type Command, InvalidArgumentError } from "commander";
import type { FlowPlan } from "../../exports/graph.js";
import { InvalidInputError } from "../../exports/index.js";
import { sentBy } from "../../graph/runtime/flows/routes.js";
import { apiClient } from "../api-client.js";
import { exitFound } from "../exit-codes.js";
import { loadPlans } from "../load-plans.js";
import { withLookingRuntime } from "../looking-runtime.js";
import { storeOption } from "../open-store.js";
import { print, printJson } from "../output.js";
import { payloadOf } from "../payload-argument.js";
import { tokenOf } from "../token.js";

interface Options {
  readonly file?: readonly string[];
  readonly store?: string;
  readonly url?: string;
  readonly tokenFile?: string;
  readonly key?: string;
  readonly entry?: string;
  readonly wait?: number | true;
  readonly json?: boolean;
}

export function addTrigger(program: Command): void {
  program
    .command("trigger")
    .description("put a packet into a flow; whoever runs the flow delivers it")
    .argument("<flow>", "its id")
    .argument("[payload]", 'JSON, @file, or - for standard input (default: "{}")')
    .option("--file <paths...>", "the flow's document; needed without --url")
    .option("--key <key>", "the same key again is the same execution")
    .option("--entry <node>", "where there are several")
    .option("--wait [seconds]", "for its end, 60 seconds or so many; exit code 1 if it has dead letters or still runs", seconds)
    .addOption(storeOption())
    .option("--url <server>", "by the HTTP API of a server, instead of the store")
    .option("--token-file <file>", "the server's token; also ONCEFLOW_TOKEN")
    .option("--json", "machine-readable")
    .action(trigger);
}

interface Told {
  readonly executionId?: string | undefined;
  readonly status: string;
  /** With --wait: how the execution is. */
  readonly execution?: string;
}

async function trigger(flow: string, argument: string | undefined, options: Options): Promise<void> {
  const payload = await payloadOf(argument);
  const waitMs = options.wait === undefined ? 0 : (options.wait === true ? 60 : options.wait) * 1000;
  const told =
    options.url === undefined ? await byStore(flow, payload, waitMs, options) : await byServer(options.url, flow, payload, waitMs, options);
  if (options.json) printJson(told);
  else print([told.status, told.executionId, told.execution].filter((word) => word !== undefined).join("  "));
  if (told.execution !== undefined && told.execution !== "completed") process.exitCode = exitFound;
}

type Payload = Awaited<ReturnType<typeof payloadOf>>;

async function byStore(flow: string, payload: Payload, waitMs: number, { file = [], store, key, entry }: Options): Promise<Told> {
  if (file.length === 0) throw new InvalidInputError("file", "trigger needs the flow's document (--file), or a server that has it (--url)");
  const documents = await loadPlans(file);
  for (const plan of documents) if (plan.id === flow) checkSource(plan, entry, payload);
  return await withLookingRuntime({ store, documents, create: true }, async (runtime) => {
    const plan = runtime.plan(flow);
    if (plan?.entries.some(({ delivery }) => delivery.mode === "direct"))
      throw new InvalidInputError(
        "flow",
        `"${flow}" keeps nothing: all of its edges are direct or ephemeral, and only a process that has its nodes can run it (--url)`,
      );
    const { executionId, status, mismatch } = await runtime.trigger(flow, entry, payload, key === undefined ? {} : { key });
    if (mismatch)
      throw new InvalidInputError("key", "was used before with another payload, or at another entry; use a new key for a new trigger");
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
 * The process that runs the flow passes on what a source gets, unless a node is written for the source: then what the
 * source takes has to stand in the document. So a payload is refused here that `run --trigger` refuses.
 */
function checkSource({ entries, nodes }: FlowPlan, entry: string | undefined, payload: Payload): void {
  const entered = entries.filter(({ node }) => entry === undefined || node === entry);
  const [only, second] = entered;
  const source = only && second === undefined && only.packet === undefined ? nodes.get(only.node) : undefined;
  const type = source?.kind === "source" ? sentBy(source) : undefined;
  const problems = type?.check(payload) ?? [];
  if (problems.length === 0) return;
  const why = problems.map(({ pointer, message }) => `${pointer || "/"} ${message}`).join("; ");
  throw new InvalidInputError(
    "payload",
    `does not match ${type?.name}, which "${source?.id}" sends on: ${why}. If a node is written for it that takes another packet, say so in its inputs`,
    problems,
  );
}

async function byServer(url: string, flow: string, payload: Payload, waitMs: number, { tokenFile, key, entry }: Options): Promise<Told> {
  const call = apiClient(url, await tokenOf(tokenFile));
  const query = entry === undefined ? "" : `?entry=${encodeURIComponent(entry)}`;
  const headers = { "content-type": "application/json", ...(key === undefined ? {} : { "idempotency-key": quoted(key) }) };
  const { body } = await call(`/flows/${encodeURIComponent(flow)}/trigger${query}`, {
    method: "POST",
    headers,
    body: JSON.stringify(payload),
  });
  const told = body as unknown as Told;
  if (told.executionId === undefined || waitMs === 0) return told;
  for (let left = waitMs / 1000; ; left -= 30) {
    const execution = await call(`/executions/${told.executionId}?wait=${Math.ceil(Math.min(left, 30))}`);
    const status = String(execution.body["status"]);
    if (status !== "running" || left <= 30) return { ...told, execution: status };
  }
}

/** As a header has it: RFC 9651, a string. */
function quoted(key: string): string {
  if (!/^[\x20-\x7e]+$/.test(key)) throw new InvalidInputError("key", "must be printable ASCII, to be sent in a header");
  return `"${key.replace(/["\\]/g, "\\$&")}"`;
}

function seconds(text: string): number {
  const value = Number(text);
  if (/^\d{1,6}$/.test(text) && value > 0) return value;
  throw new InvalidArgumentError("It must be a number of seconds.");
}
