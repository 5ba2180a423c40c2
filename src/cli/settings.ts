import { existsSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import type { Substitute } from "../exports/graph.js";
import { ConfigurationError } from "../exports/index.js";
import { Findings, findingText, wholeFile } from "../graph/findings/finding.js";
import { defaultLimits } from "../graph/load/limits.js";
import { loadTree } from "../graph/load/load.js";
import { readText } from "../graph/load/read-text.js";
import { entriesOf, type Tree } from "../graph/load/tree.js";
import { Fields } from "../graph/normalise/fields.js";
import { substituteNames } from "../graph/plan/substitutes.js";

/** What a `.flowdslrc` says. Paths are relative to the working directory. */
export interface Settings {
  /** Undefined: there is no file. */
  readonly file?: string;
  readonly paths?: readonly string[];
  readonly references: Readonly<Record<string, string>>;
  readonly substitutes?: readonly Substitute[];
  readonly registry?: string;
  readonly allowRemote?: boolean;
  readonly strict?: boolean;
}

const names = [".flowdslrc", ".flowdslrc.yaml", ".flowdslrc.yml", ".flowdslrc.json"];

/** Finds and reads the settings of a folder. Throws ConfigurationError with all findings if the file is not valid. */
export async function readSettings(folder = process.cwd()): Promise<Settings> {
  const file = settingsFile(folder);
  if (file === undefined) return { references: {} };
  const shown = relative(process.cwd(), file) || file;
  const findings = new Findings(defaultLimits.findingsMax);
  const text = await readText(file, defaultLimits.bytesMax);
  if (typeof text !== "string") findings.add(text.code, wholeFile(shown), `cannot be read: ${text.problem}`, text.fix);
  const tree = typeof text === "string" ? loadTree({ text, file: shown }, defaultLimits, findings) : undefined;
  const settings = tree === undefined ? undefined : settingsOf(tree, file, findings);
  const problems = findings.list(shown);
  if (settings !== undefined && problems.length === 0) return settings;
  throw new ConfigurationError(
    `[onceflow] ${shown} is not valid:\n${problems.map((each) => findingText({ ...each, severity: "error" })).join("\n")}`,
    { code: "SETTINGS_INVALID" },
  );
}

/**
 * In this folder, or above it up to the root of its repository. Outside of a repository only in this folder: a folder above it may
 * belong to someone else.
 */
function settingsFile(folder: string): string | undefined {
  const folders = [folder];
  for (let at = folder; !existsSync(join(at, ".git")); at = dirname(at)) {
    if (dirname(at) === at) {
      folders.length = 1;
      break;
    }
    folders.push(dirname(at));
  }
  const files = folders.flatMap((at) => names.map((name) => join(at, name)));
  return files.find((file) => statSync(file, { throwIfNoEntry: false })?.isFile());
}

function settingsOf(tree: Tree, file: string, findings: Findings): Settings | undefined {
  const fields = Fields.of({ tree, pointer: "" }, findings);
  if (fields === undefined) return undefined;
  const here = (path: string) => (/^[a-z][a-z0-9+.-]*:\/\//i.test(path) ? path : relative(process.cwd(), join(dirname(file), path)) || ".");
  const paths = fields.at("paths") && fields.texts("paths").map(here);
  const references = fields.fields("references");
  const found = references === undefined ? [] : entriesOf(references.spot).map(({ name }) => [name, references.text(name)] as const);
  const registry = fields.text("registry");
  const allowRemote = fields.flag("allowRemote");
  const strict = fields.flag("strict");
  const substitutes = fields.at("substitutes") && substitutesIn(fields, findings);
  // Members of the specification's own command line, which have no effect here; our layout is the one that they ask for.
  for (const name of ["$schema", "schemaUrl", "registryUrl"]) fields.text(name);
  fields.flag("validateOnSave");
  checkFormat(fields.fields("format"), findings);
  // An unknown member is a warning in a flow document, whose authors use other tools, too; here it is an error.
  fields.done();
  return {
    file,
    references: Object.fromEntries(found.flatMap(([name, path]) => (path === undefined ? [] : [[name, here(path)]]))),
    ...(paths && { paths }),
    ...(substitutes && { substitutes }),
    ...(registry !== undefined && { registry: here(registry) }),
    ...(allowRemote !== undefined && { allowRemote }),
    ...(strict !== undefined && { strict }),
  };
}

function substitutesIn(fields: Fields, findings: Findings): readonly Substitute[] {
  return fields.texts("substitutes").filter((name): name is Substitute => {
    const known = (substituteNames as readonly string[]).includes(name);
    if (!known)
      findings.add(
        "FLOW_BAD_VALUE",
        fields.at("substitutes") ?? fields.spot,
        `"${name}" is not a substitute`,
        `choose from ${substituteNames.join(", ")}`,
      );
    return known;
  });
}

/** `format` always indents by two and orders fields. */
function checkFormat(format: Fields | undefined, findings: Findings): void {
  if (format === undefined) return;
  const indent = format.integer("indent", 1, 8);
  const sortKeys = format.flag("sortKeys");
  if (indent !== undefined && indent !== 2)
    findings.add("FLOW_BAD_VALUE", format.at("indent") ?? format.spot, `indent ${indent} is not supported`, "use 2, or remove it");
  if (sortKeys === false)
    findings.add("FLOW_BAD_VALUE", format.at("sortKeys") ?? format.spot, "fields are always put in order", "use true, or remove it");
  format.done();
}
