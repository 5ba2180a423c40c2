import type { Command } from "commander";
import type { Attributes } from "../../../core/values/attributes.js";
import { InvalidInputError } from "../../../exports/index.js";
import { RunMismatchError } from "../../../exports/workflow/errors.js";
import { addTargetOptions, type TargetOptions, withOperations } from "../../operations/open-operations.js";

import { note, printJson, printLine } from "../../output.js";
import { jsonArgument } from "../../payload-argument.js";
import { durationMs } from "../../time-option.js";
import { type ActionCommandOptions, actOptionsOf, addActionOptions } from "../action-options.js";
import { resultText } from "./act.js";
import { members } from "./action-specs.js";
import { attribute } from "./filter-options.js";

/** Adds the commands that give runs something new: an input, or a payload. */
export function addStart(runs: Command): void {
  const start = runs
    .command("start")
    .description("Start a run, which a worker with the workflow executes")
    .argument("<workflow>", "stored name of the workflow")
    .argument("[args]", 'JSON array of the arguments, @file, or - for standard input (default: "[]")')
    .option("--id <id>", "id of the run: a start with an id that is in use starts nothing (default: a random id)")
    .option("--scope <scope>", "scope of the run")
    .option("--attribute <name=value...>", "attribute by which the run is found; may be repeated", attributes)
    .option("--timeout <duration>", "cancel the run when it takes longer", durationMs);
  addTargetOptions(start).action(startRun);
  const deliver = runs
    .command("deliver")
    .description("Deliver a payload to the hook with this token")
    .argument("<token>")
    .argument("[payload]", 'JSON, @file, or - for standard input (default: "null")')
    .option("--key <key>", "a payload with a key that the hook has received is not delivered again");
  addActionOptions(deliver).action(deliverPayload);
}

const attributes = (text: string, before: Attributes = {}): Attributes => ({ ...before, [attribute(text).name]: attribute(text).value });

interface StartOptions extends TargetOptions {
  readonly id?: string;
  readonly scope?: string;
  readonly attribute?: Attributes;
  readonly timeout?: number;
}

async function startRun(workflow: string, argument: string | undefined, options: StartOptions): Promise<void> {
  const { id, scope, attribute: found, timeout, json } = options;
  const args = await jsonArgument("args", argument ?? "[]");
  if (!Array.isArray(args))
    throw new InvalidInputError("args", `must be a JSON array with the arguments of the workflow, such as '["order-1"]'`);
  const given = members({ id, scope, attributes: found, timeoutMs: timeout });
  await withOperations(options, async ({ runs }) => {
    const answer = await runs.start({ workflow, args, ...given });
    if (answer["mismatch"] === true) throw new RunMismatchError(answer.runId);
    if (json) printJson(answer);
    else printLine(answer.runId);
    if (!json) note(`onceflow runs watch ${answer.runId} shows how it goes on`);
  });
}

interface DeliverOptions extends ActionCommandOptions {
  readonly key?: string;
}

async function deliverPayload(token: string, argument: string | undefined, options: DeliverOptions): Promise<void> {
  const payload = await jsonArgument("payload", argument ?? "null");
  const { key, json } = options;
  await withOperations(options, async ({ runs }) => {
    const answer = await runs.deliver({ token, payload, ...(key === undefined ? {} : { key }) }, actOptionsOf(options));
    if (json) printJson(answer);
    else printLine(`${answer.runId}  ${resultText({ ...answer }, "delivered")}`);
  });
}
