import { Console } from "node:console";
import { type Command, Option } from "commander";
import { leaseMsMax, leaseMsMin } from "../../core/ledger/options.js";
import { createRuntime, type FlowPlan, type LoadOptions, type Runtime, type Substitute } from "../../exports/graph.js";
import { InvalidInputError, type Store } from "../../exports/index.js";
import type { Served } from "../../exports/server.js";
import { substituteNames } from "../../graph/plan/substitutes.js";
import { addDocumentOptions, type DocumentOptions, loadOptionsFrom, pathsFrom, settingsFor } from "../document-options.js";
import { eventLines } from "../event-lines.js";
import { exitFound } from "../exit-codes.js";
import { loadNodes, type NodesModule } from "../load-nodes.js";
import { loadPlans } from "../load-plans.js";
import { wholeNumber } from "../number-option.js";
import { storeOption, withStore } from "../open-store.js";
import { counted, note, print } from "../output.js";
import { payloadOf } from "../payload-argument.js";
import { tokenOf } from "../token.js";
import { untilStopped } from "../until-stopped.js";

interface Options extends DocumentOptions {
  readonly nodes?: string;
  readonly registry?: string;
  readonly store?: string;
  readonly partial?: boolean;
  readonly streams?: "refuse" | "store";
  readonly substitute?: readonly Substitute[];
  /** True: all hosts. */
  readonly privateWebhooks?: true | string;
  readonly concurrency?: number;
  readonly leaseMs?: number;
  readonly port?: number;
  readonly host?: string;
  readonly tokenFile?: string;
  readonly trigger?: string;
  readonly flow?: string;
  readonly entry?: string;
  readonly key?: string;
  readonly wait?: boolean;
  readonly json?: boolean;
}

export function addRun(program: Command): void {
  const command = program
    .command("run")
    .description("Run flows with your nodes until stopped; with --port, serve the HTTP API")
    .argument("[paths...]", "files, or folders with .flowdsl.yaml, .yml and .json files (default: `paths` of .flowdslrc)")
    .option("--nodes <file>", "TypeScript or JavaScript module that exports `nodes`: an object keyed by operationId, or an array")
    .option(
      "--registry <file>",
      "registry of node servers, which have the nodes that are not in --nodes (default: `registry` of .flowdslrc)",
    )
    .addOption(storeOption())
    .option("--partial", "allow missing nodes, which other processes run")
    .addOption(
      new Option("--streams <how>", "reject edges of mode stream, or deliver their packets through the store").choices(["refuse", "store"]),
    )
    .addOption(
      new Option(
        "--substitute <fields...>",
        "run documents that use these fields, with the runtime's substitute behaviour (`validate` explains it)",
      ).choices(substituteNames),
    )
    .option("--private-webhooks [hosts]", "allow alert webhooks to private addresses: to all hosts, or to this comma-separated list")
    .option("--concurrency <count>", "maximum number of packets processed at the same time (default: 100)", wholeNumber(1, 100_000))
    .option(
      "--lease-ms <ms>",
      "time without a heartbeat after which other processes take over (default: 30000)",
      wholeNumber(leaseMsMin, leaseMsMax),
    )
    .option("--port <number>", "serve the HTTP API on this port (0: any free port)", wholeNumber(0, 65_535))
    .option("--host <address>", "address to bind (default: 127.0.0.1; any non-loopback address requires a token)")
    .option("--token-file <file>", "file with the token that clients must send (or set ONCEFLOW_TOKEN)")
    .option("--trigger <payload>", "trigger a flow after the start: JSON, @file, or - for standard input")
    .option("--flow <id>", "flow to trigger (required if several)")
    .option("--entry <node>", "entry point to trigger (required if several)")
    .option("--key <key>", "idempotency key: triggering again with the same key returns the first execution")
    .option("--wait", "with --trigger: exit when the execution ends; exit code 1 if it has dead letters")
    .option("--json", "print events as JSON, one object per line");
  addDocumentOptions(command).action(run);
}

async function run(paths: readonly string[], options: Options): Promise<void> {
  if (options.wait && options.trigger === undefined) throw new InvalidInputError("wait", "requires --trigger");
  // Standard output must contain only JSON lines: what nodes print with console goes to standard error.
  if (options.json) globalThis.console = new Console(process.stderr);
  const settings = await settingsFor(options);
  const load = loadOptionsFrom(options, settings);
  const documents = await loadPlans(pathsFrom(paths, settings), load);
  const payload = options.trigger === undefined ? undefined : await payloadOf(options.trigger);
  const token = options.port === undefined ? undefined : await tokenOf(options.tokenFile);
  const loaded: NodesModule = options.nodes === undefined ? { nodes: {} } : await loadNodes(options.nodes);
  const stop = untilStopped();
  try {
    await withStore(options.store, { create: true }, async (store) => {
      // Nodes that start a workflow wait for its result, so this process must also run a workflow worker.
      if (loaded.workflows) await (await import("../../exports/workflow.js")).work(store, { workflows: Object.values(loaded.workflows) });
      const runtime = await runtimeOf(store, documents, loaded, {
        ...options,
        registry: options.registry ?? settings.registry,
        substitute: options.substitute ?? settings.substitutes,
        load,
      });
      let server: Served | undefined;
      try {
        await printEvents(runtime, options);
        server = await startServer(runtime, token, options);
        const execution = payload && (await triggerFlow(runtime, payload, options));
        if (!options.wait) await stop.asked;
        else if (execution !== undefined) await Promise.race([waitForEnd(runtime, execution), stop.asked]);
      } finally {
        await server?.close();
        await runtime.stop();
      }
    });
  } finally {
    stop.forget();
  }
}

interface RuntimeSettings extends Omit<Options, "substitute" | "registry"> {
  readonly registry: string | undefined;
  readonly substitute: readonly Substitute[] | undefined;
  readonly load: LoadOptions;
}

async function runtimeOf(
  store: Store,
  documents: readonly FlowPlan[],
  loaded: NodesModule,
  { registry, partial, streams, substitute, privateWebhooks, concurrency, leaseMs, load }: RuntimeSettings,
): Promise<Runtime> {
  return await createRuntime({
    store,
    documents,
    ...loaded,
    ...load,
    ...(registry === undefined ? {} : { registry }),
    ...(partial === undefined ? {} : { partial }),
    ...(streams === undefined ? {} : { streams }),
    ...(substitute === undefined ? {} : { substitutes: substitute }),
    ...(privateWebhooks === undefined ? {} : { privateWebhooks: privateWebhooks === true ? "allow" : privateWebhooks.split(",") }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(leaseMs === undefined ? {} : { leaseMs }),
  });
}

async function printEvents(runtime: Runtime, { json }: Options): Promise<void> {
  const flows = await runtime.flows();
  const lineOf = eventLines(flows);
  note(
    `${counted(flows.length, "flow")} on ${runtime.store.name}: ${flows.map(({ id, state }) => (state === "active" ? id : `${id} (${state})`)).join(", ")}`,
  );
  runtime.on((event) => {
    const line = json ? JSON.stringify({ at: new Date(), ...event }) : lineOf(event);
    if (line !== undefined) print(line);
  });
}

/** Imports the server only with --port, so that `run` without it works without Hono. */
async function startServer(runtime: Runtime, token: string | undefined, { port, host }: Options): Promise<Served | undefined> {
  if (port === undefined) return undefined;
  const { serve } = await import("../../exports/server.js");
  const server = await serve(runtime, { port, ...(host === undefined ? {} : { host }), ...(token === undefined ? {} : { token }) });
  note(`listening on ${server.url}`);
  return server;
}

async function triggerFlow(
  runtime: Runtime,
  payload: Awaited<ReturnType<typeof payloadOf>>,
  { flow, entry, key }: Options,
): Promise<string | undefined> {
  const ids = (await runtime.flows()).map(({ id }) => id);
  const [only = "", second] = ids;
  if (flow === undefined && second !== undefined)
    throw new InvalidInputError("flow", `the documents have several flows; choose one with --flow: ${ids.join(", ")}`);
  const { executionId, status, mismatch } = await runtime.trigger(flow ?? only, entry, payload, key === undefined ? {} : { key });
  if (mismatch)
    throw new InvalidInputError("key", "was already used with a different payload or entry point; use a new key for a new trigger");
  if (status !== "started")
    note(status === "duplicate" ? `the key was already used by execution ${executionId}` : "the entry point's filter rejected the payload");
  // A flow with only direct and ephemeral edges stores no execution: it has already run.
  const kept = runtime.plan(flow ?? only)?.entries.some(({ delivery }) => delivery.mode !== "direct");
  return kept ? executionId : undefined;
}

async function waitForEnd(runtime: Runtime, execution: string): Promise<void> {
  const { status } = await runtime.wait(execution);
  if (status !== "completed") process.exitCode = exitFound;
}
