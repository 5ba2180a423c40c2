import { join } from "node:path";
import type { Externals } from "./external.js";

interface ParsedModule {
  readonly id: string;
  readonly importedIds: readonly string[];
  readonly dynamicallyImportedIds: readonly string[];
}

/** For Rollup, Rolldown and Vite: the id of an external module is the specifier of its import. */
export function rollupModuleParsed(externals: Externals) {
  return function moduleParsed(this: unknown, { id, importedIds, dynamicallyImportedIds }: ParsedModule): void {
    for (const imported of [...importedIds, ...dynamicallyImportedIds]) {
      const why = externals.whyNot(imported, id);
      if (why !== undefined) (this as { error(message: string): never }).error(why);
    }
  };
}

interface Hook<Arg> {
  tap(name: string, go: (arg: Arg) => void): void;
}

interface Compilation {
  readonly errors: { push(error: Error): unknown };
  readonly hooks: { readonly finishModules: Hook<Iterable<object>> };
}

/** The common part of the compilers of webpack and Rspack. */
interface Compiler {
  readonly context: string;
  readonly hooks: { readonly compilation: Hook<Compilation> };
}

/** webpack and Rspack create a module object for each external, also if all other modules come from their cache. */
export function webpackHook(externals: Externals) {
  return (given: unknown): void => {
    const { context, hooks } = given as Compiler;
    hooks.compilation.tap("onceflow", (compilation) => {
      compilation.hooks.finishModules.tap("onceflow", (modules) => {
        for (const module of modules) {
          const why = isExternal(module) ? externals.whyNot(module.userRequest, join(context, "index.js")) : undefined;
          if (why !== undefined) compilation.errors.push(new Error(why));
        }
      });
    });
  };
}

function isExternal(module: object): module is { readonly userRequest: string } {
  return module.constructor.name === "ExternalModule" && "userRequest" in module && typeof module.userRequest === "string";
}

interface Resolving {
  readonly path: string;
  readonly importer: string;
  readonly kind: string;
  readonly pluginData?: unknown;
}

interface EsbuildBuild {
  onResolve(
    options: { readonly filter: RegExp },
    resolve: (args: Resolving) => Promise<{ readonly errors: { readonly text: string }[] } | undefined>,
  ): void;
  resolve(path: string, options: object): Promise<{ readonly external: boolean }>;
}

/** Marks resolve requests of this plugin, so that it does not handle its own requests. */
const ownRequest = Symbol("onceflow");

/** In esbuild, `build.resolve` says whether an import is external. */
export function esbuildSetup(externals: Externals) {
  return (given: unknown): void => {
    const build = given as EsbuildBuild;
    build.onResolve({ filter: /^[^./\\]/ }, async ({ path, ...args }) => {
      if (args.pluginData === ownRequest || args.kind === "entry-point") return undefined;
      const { external } = await build.resolve(path, { ...args, pluginData: ownRequest });
      const why = external ? externals.whyNot(path, args.importer) : undefined;
      return why === undefined ? undefined : { errors: [{ text: why }] };
    });
  };
}
