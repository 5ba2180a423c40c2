import { flow } from "./flow/run.js";
import { graph } from "./graph/run.js";
import { http } from "./http/run.js";
import { ledger } from "./ledger/run.js";
import { outbox } from "./outbox/run.js";
import { transform } from "./transform/run.js";
import { workflow } from "./workflow/run.js";

/** `npm run bench -- <name> [flags]`. Each benchmark measures our code and what it is compared with in one run. */
const benches: Readonly<Record<string, (args: string[]) => Promise<void>>> = { ledger, workflow, flow, transform, http, graph, outbox };

// As in production: without the replay check of workflows.
process.env["NODE_ENV"] ??= "production";

const [name = "", ...args] = process.argv.slice(2);
const bench = Object.hasOwn(benches, name) ? benches[name] : undefined;
if (bench === undefined) {
  console.error(`usage: npm run bench -- <${Object.keys(benches).join(" | ")}> [--quick] [--out FOLDER]
  ledger:   [--store NAME] [--no-memory] [--keys N]
  workflow: [--no-peers] [--peers-only]
  graph:    [--no-backlog]`);
  process.exitCode = 2;
} else {
  await bench(args);
}
