import type { Command } from "commander";
import { InvalidInputError } from "../../exports/index.js";
import { jsonValue } from "../json-option.js";

export interface ResolutionOptions {
  readonly completed?: unknown;
  readonly failed?: string;
  readonly notApplied?: boolean;
  readonly free?: boolean;
}

/** Adds the options that say what an operator found out. `--not-applied` of steps and `--free` of keys mean that the effect did not happen. */
export function addResolutionOptions(command: Command, none: "--not-applied" | "--free", meaning: string): Command {
  return command
    .option("--completed <json>", "the effect happened, with this result", jsonValue)
    .option("--failed <message>", "it failed for good, with this error message")
    .option(none, meaning);
}

/** The one resolution that was given. `Word`: how the API says that the effect did not happen. */
export function resolutionOf<Word extends "notApplied" | "free">(
  options: ResolutionOptions,
  word: Word,
): { readonly completed: unknown } | { readonly failed: { readonly message: string } } | Word {
  const given = (["completed", "failed", word] as const).filter((name) => options[name] !== undefined);
  if (given.length !== 1) {
    const none = word === "free" ? "--free" : "--not-applied";
    throw new InvalidInputError(
      "resolution",
      `${given.length === 0 ? "is missing" : "is ambiguous"}: give one of --completed <json>, --failed <message>, ${none}`,
    );
  }
  if (options.completed !== undefined) return { completed: options.completed };
  return options.failed === undefined ? word : { failed: { message: options.failed } };
}
