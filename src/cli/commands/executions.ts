import { type Command, Option } from "commander";
import type { ExecutionDetails, ExecutionView, Page } from "../../exports/graph.js";
import { InvalidInputError } from "../../exports/index.js";
import { withClientRuntime } from "../client-runtime.js";
import { historyOf, historyTable } from "../execution-history.js";
import { wholeNumber } from "../number-option.js";
import { storeOption } from "../open-store.js";
import { facts, print, printJson, table, timeOf } from "../output.js";
import { notFound } from "../report-error.js";

interface Options extends Page {
  readonly store?: string;
  readonly flow?: string;
  readonly status?: ExecutionView["status"];
  readonly values?: boolean;
  readonly json?: boolean;
}

export function addExecutions(program: Command): void {
  program
    .command("executions")
    .description("List executions of flows (newest first), or show one in detail")
    .argument("[id]", "execution to show")
    .option("--flow <id>", "only this flow")
    .addOption(new Option("--status <status>", "only this status").choices(["running", "completed", "dead"]))
    .option("--limit <count>", "maximum number of rows (default: 100)", wholeNumber(1, 1000))
    .option("--before <id>", "continue after this execution, the last row of the previous page")
    .option("--values", "show inputs and outputs of the deliveries of one execution, if they are recorded")
    .addOption(storeOption())
    .option("--json", "print JSON")
    .action(executions);
}

async function executions(id: string | undefined, { store, json, values = false, ...query }: Options): Promise<void> {
  await withClientRuntime({ store }, async (runtime) => {
    if (id === undefined) {
      if (values) throw new InvalidInputError("values", "--values requires the id of an execution");
      const found = await runtime.executions(query);
      if (json) printJson(found);
      else print(table(["ID", "FLOW", "STATUS", "OPEN", "DEAD", "CREATED", "ENDED", "KEY"], found.map(rowOf)));
      return;
    }
    const found = await runtime.execution(id);
    if (found === undefined) throw notFound(`execution ${id}`);
    const history = await historyOf(runtime, id, values);
    if (json) printJson({ ...found, history });
    else print([detailsOf(found), ...(history.length === 0 ? [] : [historyTable(history)])].join("\n\n"));
  });
}

const rowOf = ({ id, flow, status, open, dead, createdAt, endedAt, key }: ExecutionView) =>
  [id, flow, status, open, dead, timeOf(createdAt), timeOf(endedAt), key] as const;

function detailsOf({ input, outputs, notes, packets, ...view }: ExecutionDetails): string {
  const parts = [facts(Object.entries({ ...view, input: JSON.stringify(input) }))];
  if (outputs.length > 0)
    parts.push(
      table(
        ["NODE", "PORT", "OUTPUT"],
        outputs.map(({ node, port, data }) => [node, port, JSON.stringify(data)]),
      ),
    );
  if (notes.length > 0)
    parts.push(
      table(
        ["AT", "NOTE", "EDGE", "PACKET", "ABOUT"],
        notes.map(({ at, kind, edge, packetId, about }) => [timeOf(at), kind, edge, packetId, about ?? ""]),
      ),
    );
  if (packets.length > 0)
    parts.push(
      table(
        ["PACKET", "STATE", "ATTEMPT", "EDGE", "KEY"],
        packets.map(({ id, state, attempt, edge, key }) => [id, state, attempt, edge, key]),
      ),
    );
  return parts.join("\n\n");
}
