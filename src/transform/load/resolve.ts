import { existsSync, statSync } from "node:fs";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";

/** In a TypeScript file these import extensions refer to the source file that they are compiled from. */
const sources: Readonly<Record<string, readonly string[]>> = { ".js": [".ts", ".tsx"], ".mjs": [".mts"], ".jsx": [".tsx"] };
const endings = [".ts", ".tsx", ".mts", ".js", ".mjs", ".jsx"];

/** Resolves a relative import of a TypeScript file as an editor does; undefined leaves the import to Node. */
export function resolveAsTypeScript(specifier: string, parent: string): string | undefined {
  const url = new URL(specifier, parent);
  const ending = extname(url.pathname);
  const stem = url.href.slice(0, url.href.length - (url.search + url.hash).length);
  const rest = url.search + url.hash;
  const source = (sources[ending] ?? []).map((other) => stem.slice(0, -ending.length) + other).find(isFile);
  if (source !== undefined) return source + rest;
  if (isFile(stem)) return undefined;
  const without = stem.replace(/\/$/, "");
  const found = [...endings.map((each) => without + each), ...endings.map((each) => `${without}/index${each}`)].find(isFile);
  return found && found + rest;
}

function isFile(url: string): boolean {
  const file = fileURLToPath(url);
  return existsSync(file) && statSync(file).isFile();
}
