import { plugin } from "./plugin.js";
import type { PluginOptions } from "./plugin-options.js";

/** The part of the loader context (`this`) of Turbopack and webpack that is used here. */
interface LoaderContext {
  readonly resourcePath: string;
  getOptions(): { readonly onceflow: string };
  callback(error: Error | null, code?: string, map?: unknown): void;
}

/** The part of the plugin's transform hook that is used here. */
type Handler = (
  this: { error(problem: Error | { readonly message: string }): never },
  code: string,
  file: string,
) => { readonly code: string; readonly map?: unknown } | undefined;

const handlers = new Map<string, Handler>();

/** Runs the plugin's transform as a loader, because Turbopack supports loaders but not plugins. */
// biome-ignore lint/style/noDefaultExport: a loader must be a default export
export default function loader(this: LoaderContext, code: string, map: unknown): void {
  try {
    const transformed = handlerFor(this.getOptions().onceflow).call(context, code, this.resourcePath);
    this.callback(null, transformed?.code ?? code, transformed?.map ?? map);
  } catch (error) {
    this.callback(error instanceof Error ? error : new Error(String(error)));
  }
}

const context = {
  error(problem: Error | { readonly message: string }): never {
    if (problem instanceof Error) throw problem;
    // The message names the file and line. Without this stack Turbopack would print frames of this loader below it.
    throw Object.assign(new Error(problem.message), { stack: `Error: ${problem.message}` });
  },
};

function handlerFor(text: string): Handler {
  const known = handlers.get(text);
  if (known) return known;
  const options = JSON.parse(text, revived) as PluginOptions;
  const { transform } = plugin.raw(options, { framework: "rollup", versions: { unplugin: "" } });
  const handler = (transform as unknown as { readonly handler: Handler }).handler;
  handlers.set(text, handler);
  return handler;
}

function revived(_: string, value: unknown): unknown {
  const [source, flags] = (value as { readonly regexp?: readonly [string, string] } | null)?.regexp ?? [];
  return source === undefined ? value : new RegExp(source, flags);
}
