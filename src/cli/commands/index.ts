import type { Command } from "commander";
import { addCompletion } from "./completion.js";
import { addConformance } from "./conformance.js";
import { addConvert } from "./convert.js";
import { addFormat } from "./format.js";
import { addGenerate } from "./generate.js";
import { addValidate } from "./validate.js";

/** A command is a file that adds itself to the program, and a line here. */
export const commands: readonly ((program: Command) => void)[] = [
  addValidate,
  addConvert,
  addFormat,
  addGenerate,
  addConformance,
  addCompletion,
];
