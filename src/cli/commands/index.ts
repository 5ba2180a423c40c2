import type { Command } from "commander";
import { addCompletion } from "./completion.js";
import { addConformance } from "./conformance.js";
import { addConvert } from "./convert.js";
import { addDeadLetters } from "./dead-letters.js";
import { addExecutions } from "./executions.js";
import { addFormat } from "./format.js";
import { addGenerate } from "./generate.js";
import { addKeys } from "./keys.js";
import { addLog } from "./log.js";
import { addMigrate } from "./migrate.js";
import { addNodes } from "./nodes.js";
import { addRun } from "./run.js";
import { addRuns } from "./runs/index.js";
import { addTrigger } from "./trigger.js";
import { addValidate } from "./validate.js";
import { addWorkers } from "./workers.js";

/** The commands, in the order of the help. To add one: write a file that registers it, and add a line here. */
export const commands: readonly ((program: Command) => void)[] = [
  addValidate,
  addConvert,
  addFormat,
  addGenerate,
  addRun,
  addNodes,
  addTrigger,
  addExecutions,
  addDeadLetters,
  addRuns,
  addKeys,
  addWorkers,
  addLog,
  addMigrate,
  addConformance,
  addCompletion,
];
