import { readFile } from "node:fs/promises";
import type { LoadHook, ResolveHook } from "node:module";
import { fileURLToPath } from "node:url";
import { languageOf } from "../ast.js";
import { choiceFromEnvironment, treatmentOf } from "../choice.js";
import { hasDirective } from "../concerns.js";
import { runtimeModule } from "../edit.js";
import { transform } from "../transform.js";
import { isProjectFile, projectRoot } from "./project.js";
import { resolveAsTypeScript } from "./resolve.js";
import { strip } from "./strip.js";
import { refuseDirectives } from "./untransformed.js";

// The module hooks of `onceflow/register`. They run in Node's loader thread.
const root = projectRoot();
const { choice, directives } = choiceFromEnvironment();
const typed = /\.(?:ts|mts|tsx|jsx)$/;

export const resolve: ResolveHook = async (specifier, context, nextResolve) => {
  const { parentURL } = context;
  // A transformed package may not have onceflow among its dependencies: resolve the runtime module to this copy.
  if (specifier === runtimeModule && parentURL !== undefined && !isProjectUrl(parentURL))
    return await nextResolve(new URL("../../exports/workflow/runtime.js", import.meta.url).href, context);
  if (!/^(?:\.\.?(?:\/|$)|file:)/.test(specifier) || parentURL === undefined || !isProjectUrl(parentURL))
    return await nextResolve(specifier, context);
  return await nextResolve(resolveAsTypeScript(specifier, parentURL) ?? specifier, context);
};

export const load: LoadHook = async (url, context, nextLoad) => {
  const file = url.startsWith("file:") ? fileURLToPath(url) : undefined;
  if (file === undefined || languageOf(file) === undefined) return await nextLoad(url, context);
  const treatment = treatmentOf(file, choice);
  if (treatment === "leave") return await nextLoad(url, context);
  if (treatment === "check") {
    const loaded = await nextLoad(url, context);
    refuseDirectives(await sourceOf(file, loaded), { file, root });
    return loaded;
  }
  if (typed.test(file)) return { format: "module", source: compile(url, file, await readFile(file, "utf8")), shortCircuit: true };
  const loaded = await nextLoad(url, context);
  if (loaded.format !== "module" && loaded.format !== "commonjs") return loaded;
  const code = await sourceOf(file, loaded);
  if (loaded.format === "commonjs" && !hasDirective(code)) return loaded;
  const transformed = transform(code, { file, root, directives });
  return transformed ? { ...loaded, format: "module", source: withMap(url, transformed.code, transformed.map) } : loaded;
};

function isProjectUrl(url: string): boolean {
  return url.startsWith("file:") && isProjectFile(fileURLToPath(url));
}

/** For CommonJS the default load hook returns no source, because Node reads the file later. */
async function sourceOf(file: string, { source }: Awaited<ReturnType<LoadHook>>): Promise<string> {
  return source ? textOf(source) : await readFile(file, "utf8");
}

function compile(url: string, file: string, code: string): string {
  const transformed = transform(code, { file, root, directives });
  const stripped = strip(file, transformed?.code ?? code, transformed?.map);
  return withMap(url, stripped.code, stripped.map);
}

function withMap(url: string, code: string, map: object | undefined): string {
  if (map === undefined) return code;
  const text = JSON.stringify({ ...map, sources: [url] });
  return `${code}\n//# sourceMappingURL=data:application/json;base64,${Buffer.from(text).toString("base64")}\n`;
}

function textOf(source: string | ArrayBuffer | NodeJS.TypedArray): string {
  return typeof source === "string" ? source : new TextDecoder().decode(source as Uint8Array);
}
