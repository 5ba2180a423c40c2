import { join } from "node:path";
import type { Externals } from "./external.js";

interface ParsedModule {
  readonly id: string;
  readonly importedIds: readonly string[];
  readonly dynamicallyImportedIds: readonly string[];
}

/** Rollup, Rolldown and Vite: what they leave out keeps the bare name that it is imported by. */
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

/** As far as those of webpack and Rspack are the same. */
interface Compiler {
  readonly context: string;
  readonly hooks: { readonly compilation: Hook<Compilation> };
}

/** webpack and Rspack make modules of what they leave out, also when all others come from their cache. */
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

/** So that our own question does not come back to us. */
const asked = Symbol("onceflow");

/** esbuild tells what it leaves out when it is asked. */
export function esbuildSetup(externals: Externals) {
  return (given: unknown): void => {
    const build = given as EsbuildBuild;
    build.onResolve({ filter: /^[^./\\]/ }, async ({ path, ...args }) => {
      if (args.pluginData === asked || args.kind === "entry-point") return undefined;
      const { external } = await build.resolve(path, { ...args, pluginData: asked });
      const why = external ? externals.whyNot(path, args.importer) : undefined;
      return why === undefined ? undefined : { errors: [{ text: why }] };
    });
  };
}
