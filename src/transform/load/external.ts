import { existsSync, realpathSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type Choice, chosenByName, isChosen, treatmentOf } from "../choice.js";
import { placeIn, TransformError } from "../errors.js";
import { filesFrom } from "../relative-imports.js";
import { type Package, packageIn, pathFrom } from "./package-of.js";
import { directiveIn, packageAdvice } from "./untransformed.js";

/**
 * Packages that a bundler leaves out of its bundle. Node loads them as they are, so the bundler never hands us their
 * files; what is wrong with them has to be found at the import.
 */
export class Externals {
  readonly #choice: Choice;
  /** By folder: a file of the package that has directives. */
  readonly #files = new Map<string, FileWithDirectives | undefined>();

  constructor(choice: Choice) {
    this.#choice = choice;
  }

  /** Why what a file imports must not be loaded as it is; undefined when it may. */
  whyNot(specifier: string, importer: string): string | undefined {
    const pack = installed(specifier, dirname(importer));
    if (pack === undefined || this.#choice.exclude.includes(pack.name)) return undefined;
    const found = this.#fileWithDirectives(pack);
    if (found === undefined && !isChosen(pack, this.#choice.include)) return undefined;
    if (found !== undefined && (found.isCommonJs || treatmentOf(found.file, this.#choice) === "check"))
      return `${pathFrom(dirname(pack.folder), found.file)}: ${packageAdvice(pack.name, found)}`;
    return (
      `package "${pack.name}" has directives and is external: it would be loaded untransformed, and its steps executed again with every replay. ` +
      `Take it out of the externals, so that it becomes part of the bundle. To load it as it is: exclude: ["${pack.name}"].`
    );
  }

  /** Packages that must become part of the bundle: chosen by name, or among the dependencies of the app and chosen by themselves. */
  mustBundle(root: string): string[] {
    const { dependencies, devDependencies } = (packageIn(root)?.manifest ?? {}) as Readonly<Record<string, object | undefined>>;
    const chosen = Object.keys({ ...dependencies, ...devDependencies }).filter((name) => {
      const pack = installed(name, root);
      return pack !== undefined && isChosen(pack, this.#choice.include);
    });
    return [...new Set([...chosenByName(this.#choice.include), ...chosen])];
  }

  /** Refuses a file that imports such a package. `bundled`: names of packages that are never left to Node. */
  refuseImports(code: string, file: string, bundled: readonly string[]): void {
    for (const [, specifier = ""] of code.matchAll(bareImport)) {
      const [name = ""] = bareName.exec(specifier) ?? [];
      const why = bundled.includes(name) ? undefined : this.whyNot(specifier, file);
      if (why !== undefined) throw new TransformError(file, [{ ...placeIn(code, code.indexOf(specifier)), message: why }]);
    }
  }

  #fileWithDirectives(pack: Package): FileWithDirectives | undefined {
    const { folder } = pack;
    if (!this.#files.has(folder)) this.#files.set(folder, fileWithDirectives(pack));
    return this.#files.get(folder);
  }
}

const bareName = /^(?:@[\w.~-]+\/)?[\w~-][\w.~-]*(?=\/|$)/;

/** The installed package that a bare specifier means, for a file in this folder. */
function installed(specifier: string, from: string): Package | undefined {
  const [name] = bareName.exec(specifier) ?? [];
  // "node:fs" is no package.
  if (name === undefined || specifier.includes(":")) return undefined;
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    const candidate = join(folder, "node_modules", name);
    if (existsSync(join(candidate, "package.json"))) return packageIn(realpathSync(candidate));
    if (dirname(folder) === folder) return undefined;
  }
}

interface FileWithDirectives {
  readonly file: string;
  readonly isCommonJs: boolean;
}

/** Of a package that is published in both forms, the file that is a module: that one can be transformed. */
function fileWithDirectives({ folder, manifest }: Package): FileWithDirectives | undefined {
  const entries = ["exports", "module", "main"].flatMap((field) => [...textsIn(manifest[field])]);
  let inCommonJs: FileWithDirectives | undefined;
  for (const { file, code } of filesFrom([...entries, "index.js"].map((entry) => join(folder, entry)))) {
    const found = directiveIn(file, code);
    if (found && !found.isCommonJs) return { file, isCommonJs: false };
    if (found) inCommonJs ??= { file, isCommonJs: true };
  }
  return inCommonJs;
}

function* textsIn(value: unknown): Generator<string> {
  if (typeof value === "string") yield value;
  else if (typeof value === "object" && value !== null) for (const each of Object.values(value)) yield* textsIn(each);
}

/** What a file imports by bare names, but for types: they are gone before anything is loaded. A comment may look the same. */
const bareImport = /\b(?:import|export)\b(?!\s+type\b)[^"'`;]*["']([^"'./][^"']*)["']/g;
