import type { Command } from "commander";
import { addTargetOptions, type TargetOptions, withOperations } from "../operations/open-operations.js";
import { note, print, printJson, table, timeOf } from "../output.js";

export function addWorkers(program: Command): void {
  const command = program.command("workers").description("List the workers that execute runs, with their workflows");
  addTargetOptions(command).action(workers);
}

async function workers(options: TargetOptions): Promise<void> {
  await withOperations(options, async (operations) => {
    const found = await operations.workers();
    if (options.json) return printJson(found);
    const rows = found.map(({ id, live, version, startedAt, seenAt, workflows, runs, hasMoreRuns }) => [
      id,
      live ? "live" : "silent",
      version,
      timeOf(startedAt),
      timeOf(seenAt),
      runs && `${runs.length}${hasMoreRuns ? "+" : ""}`,
      workflows.join(", "),
    ]);
    print(table(["ID", "STATE", "VERSION", "STARTED", "SEEN", "RUNS", "WORKFLOWS"], rows));
    if (found.length === 0) note("no worker has been seen in the last hour");
  });
}
