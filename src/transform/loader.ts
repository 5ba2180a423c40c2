import { readFile } from "node:fs/promises";
import type { LoadHook, ResolveHook } from "node:module";
import { fileURLToPath } from "node:url";
import { languageOf } from "./ast.js";
import { hasDirective } from "./concerns.js";
import { isProjectFile, projectRoot } from "./project.js";
import { resolveAsTypeScript } from "./resolve.js";
import { strip } from "./strip.js";
import { transform } from "./transform.js";

/** The hooks of `onceflow/register`. Files of packages are Node's business. */
const root = projectRoot();
const typed = /\.(?:ts|mts|tsx|jsx)$/;

export const resolve: ResolveHook = async (specifier, context, nextResolve) => {
  const { parentURL } = context;
  if (!/^(?:\.\.?(?:\/|$)|file:)/.test(specifier) || parentURL === undefined || !projectFileAt(parentURL))
    return await nextResolve(specifier, context);
  return await nextResolve(resolveAsTypeScript(specifier, parentURL) ?? specifier, context);
};

export const load: LoadHook = async (url, context, nextLoad) => {
  const file = projectFileAt(url);
  if (file === undefined || languageOf(file) === undefined) return await nextLoad(url, context);
  if (typed.test(file)) return { format: "module", source: compile(url, file, await readFile(file, "utf8")), shortCircuit: true };
  const loaded = await nextLoad(url, context);
  if (loaded.format !== "module" && loaded.format !== "commonjs") return loaded;
  // Node reads CommonJS itself, later.
  const code = loaded.source ? textOf(loaded.source) : await readFile(file, "utf8");
  if (loaded.format === "commonjs" && !hasDirective(code)) return loaded;
  const transformed = transform(code, { file, root });
  return transformed ? { ...loaded, format: "module", source: withMap(url, transformed.code, transformed.map) } : loaded;
};

function projectFileAt(url: string): string | undefined {
  if (!url.startsWith("file:")) return undefined;
  const file = fileURLToPath(url);
  return isProjectFile(file) ? file : undefined;
}

function compile(url: string, file: string, code: string): string {
  const transformed = transform(code, { file, root });
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
