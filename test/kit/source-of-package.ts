import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Plugin } from "vite";

const root = resolve(import.meta.dirname, "../..");
const src = join(root, "src");
/** Tests of the package itself import it as an app does: the build, by package.json. */
const ofThePackage = join(root, "test/package");

/**
 * Tests import the sources: `onceflow/x` is src/exports/x.ts, as in the exports of the package. A file that is loaded by its
 * URL and not by an import (a thread, a loader, a set-up file) is the built one, because Node 20 runs no TypeScript.
 */
export function sourceOfPackage(): Plugin {
  return {
    name: "source-of-package",
    enforce: "pre",
    resolveId(specifier, importer) {
      const [, entry = "index"] = /^onceflow(?:\/(.+))?$/.exec(specifier) ?? [];
      const file = join(src, "exports", `${entry}.ts`);
      return specifier.startsWith("onceflow") && !importer?.startsWith(ofThePackage) && existsSync(file) ? file : undefined;
    },
    transform(code, id) {
      if (!id.startsWith(src)) return;
      return code.replace(/new URL\("(\.[^"]+\.js)", import\.meta\.url\)/g, (whole, file: string) => {
        const source = resolve(dirname(id), file);
        if (!source.startsWith(src)) return whole;
        const built = join(root, "dist", source.slice(src.length));
        return `new URL(${JSON.stringify(pathToFileURL(built).href)})`;
      });
    },
  };
}
