import { Console } from "node:console";
import { type Command, Option } from "commander";
import { leaseMsMax, leaseMsMin } from "../../core/ledger/options.js";
import { createRuntime, type FlowPlan, type Runtime, type Substitute } from "../../exports/graph.js";
import { InvalidInputError, type Store } from "../../exports/index.js";
import type { Served } from "../../exports/server.js";
import { substituteNames } from "../../graph/plan/substitutes.js";
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

interface Options {
  readonly nodes: string;
  readonly store?: string;
  readonly partial?: boolean;
  readonly streams?: "refuse" | "store";
  readonly substitute?: readonly Substitute[];
  /** True: all. */
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
  program
    .command("run")
    .description("run flows with your nodes, until stopped; with --port, behind the HTTP API")
    .argument("<paths...>", "files, or folders with .flowdsl.yaml, .yml and .json files")
    .requiredOption("--nodes <file>", "a module, TypeScript or JavaScript, that exports `nodes`: an object by operationId, or a list")
    .addOption(storeOption())
    .option("--partial", "other processes have the nodes that are missing here")
    .addOption(
      new Option("--streams <how>", "edges of mode stream: refuse them, or deliver them by the store").choices(["refuse", "store"]),
    )
    .addOption(
      new Option(
        "--substitute <fields...>",
        "run documents with these fields although the runtime does something else; `validate` says what",
      ).choices(substituteNames),
    )
    .option("--private-webhooks [hosts]", "alerts may go to private addresses: all, or those of these hosts, separated by commas")
    .option("--concurrency <count>", "packets with this process at once (default: 100)", wholeNumber(1, 100_000))
    .option("--lease-ms <ms>", "how long it may be silent before others take over (default: 30000)", wholeNumber(leaseMsMin, leaseMsMax))
    .option("--port <number>", "serve the HTTP API; 0: on a free port", wholeNumber(0, 65_535))
    .option("--host <address>", "default: 127.0.0.1; any other needs a token")
    .option("--token-file <file>", "the token that callers must send; also ONCEFLOW_TOKEN")
    .option("--trigger <payload>", "put this into a flow at once: JSON, @file, or -")
    .option("--flow <id>", "which, where there are several")
    .option("--entry <node>", "where it has several")
    .option("--key <key>", "the same key again is the same execution")
    .option("--wait", "with --trigger: stop when that has ended; exit code 1 if it has dead letters")
    .option("--json", "what happens as one JSON object a line")
    .action(run);
}

async function run(paths: readonly string[], options: Options): Promise<void> {
  if (options.wait && options.trigger === undefined) throw new InvalidInputError("wait", "goes with --trigger");
  // Standard output is for the program that reads us: what nodes say goes to where people look.
  if (options.json) globalThis.console = new Console(process.stderr);
  const documents = await loadPlans(paths);
  const payload = options.trigger === undefined ? undefined : await payloadOf(options.trigger);
  const token = options.port === undefined ? undefined : await tokenOf(options.tokenFile);
  const loaded = await loadNodes(options.nodes);
  const stop = untilStopped();
  try {
    await withStore(options.store, { create: true }, async (store) => {
      // Nodes that run a workflow wait for its end: somebody has to work on it.
      if (loaded.workflows) await (await import("../../exports/workflow.js")).work(store, { workflows: Object.values(loaded.workflows) });
      const runtime = await made(store, documents, loaded, options);
      let server: Served | undefined;
      try {
        await tellEvents(runtime, options);
        server = await served(runtime, token, options);
        const execution = payload && (await triggered(runtime, payload, options));
        if (!options.wait) await stop.asked;
        else if (execution !== undefined) await Promise.race([ended(runtime, execution), stop.asked]);
      } finally {
        await server?.close();
        await runtime.stop();
      }
    });
  } finally {
    stop.forget();
  }
}

async function made(
  store: Store,
  documents: readonly FlowPlan[],
  loaded: NodesModule,
  { partial, streams, substitute, privateWebhooks, concurrency, leaseMs }: Options,
): Promise<Runtime> {
  return await createRuntime({
    store,
    documents,
    ...loaded,
    ...(partial === undefined ? {} : { partial }),
    ...(streams === undefined ? {} : { streams }),
    ...(substitute === undefined ? {} : { substitutes: substitute }),
    ...(privateWebhooks === undefined ? {} : { privateWebhooks: privateWebhooks === true ? "allow" : privateWebhooks.split(",") }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(leaseMs === undefined ? {} : { leaseMs }),
  });
}

async function tellEvents(runtime: Runtime, { json }: Options): Promise<void> {
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

/** Loaded here, so that whoever serves nothing needs no Hono. */
async function served(runtime: Runtime, token: string | undefined, { port, host }: Options): Promise<Served | undefined> {
  if (port === undefined) return undefined;
  const { serve } = await import("../../exports/server.js");
  const server = await serve(runtime, { port, ...(host === undefined ? {} : { host }), ...(token === undefined ? {} : { token }) });
  note(`listening on ${server.url}`);
  return server;
}

async function triggered(
  runtime: Runtime,
  payload: Awaited<ReturnType<typeof payloadOf>>,
  { flow, entry, key }: Options,
): Promise<string | undefined> {
  const ids = (await runtime.flows()).map(({ id }) => id);
  const [only = "", second] = ids;
  if (flow === undefined && second !== undefined)
    throw new InvalidInputError("flow", `there are several flows; say --flow ${ids.join(" or ")}`);
  const { executionId, status, mismatch } = await runtime.trigger(flow ?? only, entry, payload, key === undefined ? {} : { key });
  if (mismatch)
    throw new InvalidInputError("key", "was used before with another payload, or at another entry; use a new key for a new trigger");
  if (status !== "started")
    note(status === "duplicate" ? `the key was used before: ${executionId}` : "the entry's filter does not let it in");
  // Of a flow that keeps nothing there is nothing to wait for: it has been run.
  const kept = runtime.plan(flow ?? only)?.entries.some(({ delivery }) => delivery.mode !== "direct");
  return kept ? executionId : undefined;
}

async function ended(runtime: Runtime, execution: string): Promise<void> {
  const { status } = await runtime.wait(execution);
  if (status !== "completed") process.exitCode = exitFound;
}
