import { type Command, InvalidArgumentError } from "commander";
import type { LoadOptions } from "../exports/graph.js";
import { InvalidInputError } from "../exports/index.js";
import { note } from "./output.js";
import { readSettings, type Settings } from "./settings.js";

/** Options of all commands that read flow documents. */
export interface DocumentOptions {
  readonly allowRemote?: boolean;
  readonly reference?: Readonly<Record<string, string>>;
  /** False: --no-config. */
  readonly config?: boolean;
  readonly verbose?: boolean;
}

/** Adds the options that say how documents are loaded. */
export function addDocumentOptions(command: Command): Command {
  return addSettingsOptions(command)
    .option("--allow-remote", "fetch AsyncAPI and OpenAPI documents from the network")
    .option("--reference <address=file>", "read this file instead of an address that documents refer to; may be repeated", collected);
}

/** Adds the options about `.flowdslrc`. */
export function addSettingsOptions(command: Command): Command {
  return command.option("--no-config", "do not read .flowdslrc").option("--verbose", "print which .flowdslrc is used");
}

/** `/asyncapi.json=./asyncapi.json`. An address may contain "=", in the query of a URL; the file follows the last one. */
function collected(text: string, before: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  const at = text.lastIndexOf("=");
  if (at < 1 || at === text.length - 1) throw new InvalidArgumentError("Expected address=file, such as /asyncapi.json=./asyncapi.json.");
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}

/** The settings of the working directory, unless --no-config. */
export async function settingsFor({ config = true, verbose = false }: Pick<DocumentOptions, "config" | "verbose">): Promise<Settings> {
  const settings = config ? await readSettings() : { references: {} };
  if (verbose) note(settings.file === undefined ? "settings: none" : `settings: ${settings.file}`);
  return settings;
}

/** Options of the command line come before the settings. */
export function loadOptionsFrom({ allowRemote, reference = {} }: DocumentOptions, settings: Settings): LoadOptions {
  return { allowRemote: allowRemote ?? settings.allowRemote ?? false, references: { ...settings.references, ...reference } };
}

/** The paths of the command line, else those of the settings. */
export function pathsFrom(given: readonly string[], settings: Settings): readonly string[] {
  const paths = given.length > 0 ? given : (settings.paths ?? []);
  if (paths.length === 0) throw new InvalidInputError("paths", "name files or folders, or set `paths` in .flowdslrc");
  return paths;
}
