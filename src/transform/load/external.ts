import { existsSync, realpathSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type Choice, includedByName, isIncluded, treatmentOf } from "../choice.js";
import { positionIn, TransformError } from "../errors.js";
import { filesFrom } from "../relative-imports.js";
import { type Package, packageIn, pathFrom } from "./package-of.js";
import { directiveIn, packageAdvice } from "./untransformed.js";

/**
 * Packages that a bundler leaves out of its bundle. Node loads their files unchanged and the plugin never sees them, so
 * directives in them must be found when they are imported.
 */
export class Externals {
  readonly #choice: Choice;
  /** By folder of the package: a file with directives, if the package has one. */
  readonly #files = new Map<string, FileWithDirectives | undefined>();

  constructor(choice: Choice) {
    this.#choice = choice;
  }

  /** Why the imported package must not be loaded untransformed; undefined if it may be. */
  whyNot(specifier: string, importer: string): string | undefined {
    const pack = installed(specifier, dirname(importer));
    if (pack === undefined || this.#choice.exclude.includes(pack.name)) return undefined;
    const found = this.#fileWithDirectives(pack);
    if (found === undefined && !isIncluded(pack, this.#choice.include)) return undefined;
    if (found !== undefined && (found.isCommonJs || treatmentOf(found.file, this.#choice) === "check"))
      return `${pathFrom(dirname(pack.folder), found.file)}: ${packageAdvice(pack.name, found)}`;
    return (
      `package "${pack.name}" has directives and is external: it would be loaded untransformed, and its steps would run again with every replay. ` +
      `Remove it from the externals, so that it becomes part of the bundle. To load it untransformed: exclude: ["${pack.name}"].`
    );
  }

  /** Packages that must be bundled: those included by name, and dependencies of the app whose package.json asks for the transform. */
  mustBundle(root: string): string[] {
    const { dependencies, devDependencies } = (packageIn(root)?.manifest ?? {}) as Readonly<Record<string, object | undefined>>;
    const chosen = Object.keys({ ...dependencies, ...devDependencies }).filter((name) => {
      const pack = installed(name, root);
      return pack !== undefined && isIncluded(pack, this.#choice.include);
    });
    return [...new Set([...includedByName(this.#choice.include), ...chosen])];
  }

  /** Throws TransformError if the file imports such a package. `bundled`: packages that are always part of the bundle. */
  refuseImports(code: string, file: string, bundled: readonly string[]): void {
    for (const [, specifier = ""] of code.matchAll(bareImport)) {
      const [name = ""] = bareName.exec(specifier) ?? [];
      const why = bundled.includes(name) ? undefined : this.whyNot(specifier, file);
      if (why !== undefined) throw new TransformError(file, [{ ...positionIn(code, code.indexOf(specifier)), message: why }]);
    }
  }

  #fileWithDirectives(pack: Package): FileWithDirectives | undefined {
    const { folder } = pack;
    if (!this.#files.has(folder)) this.#files.set(folder, fileWithDirectives(pack));
    return this.#files.get(folder);
  }
}

const bareName = /^(?:@[\w.~-]+\/)?[\w~-][\w.~-]*(?=\/|$)/;

/** The installed package to which a bare specifier resolves from this folder. */
function installed(specifier: string, from: string): Package | undefined {
  const [name] = bareName.exec(specifier) ?? [];
  // "node:fs" is not a package.
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

/** A file of the package with directives. ES modules are preferred to CommonJS, because they can be transformed. */
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

/** Matches imports of packages, except type imports, which are removed before loading. May also match text in comments. */
const bareImport = /\b(?:import|export)\b(?!\s+type\b)[^"'`;]*["']([^"'./][^"']*)["']/g;
