import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { build, type Plugin } from "esbuild";

const root = resolve(import.meta.dirname, "../..");
const programs = join(root, ".build/test");
const bundles = join(root, ".build/bundles");
const dist = join(root, "dist");

/**
 * Makes one file of each program in test/<area>/programs, together with the package and the drivers. Suites start hundreds of
 * processes, and a process needs most of its time to load hundreds of files: the bundle of a program starts two to four times faster.
 */
export async function bundlePrograms(): Promise<void> {
  const { outputFiles } = await build({
    entryPoints: readdirSync(programs, { recursive: true, encoding: "utf8" })
      .filter((file) => /^[^/]+\/(.+\/)?programs\/[^/]+\.js$/.test(file))
      .map((file) => join(programs, file)),
    outbase: programs,
    outdir: bundles,
    chunkNames: "chunks/[hash]",
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    plugins: [builtPackage, namedExports],
    // A binary, which a bundle cannot contain; and what a test looks for in the module cache of Node.
    external: ["@photostructure/sqlite"],
    banner: { js: 'import { createRequire as requireOfBundle } from "node:module"; const require = requireOfBundle(import.meta.url);' },
    logLevel: "error",
    write: false,
  });
  for (const { path, contents } of outputFiles) replace(path, contents);
}

/**
 * `onceflow/x` is dist/exports/x.js, and what a program imports from src is in dist, too. A file that is loaded by its URL and not by an
 * import (a thread) is the one in dist.
 */
const builtPackage: Plugin = {
  name: "built-package",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^onceflow(\/|$)/ }, ({ path }) => ({
      path: join(dist, "exports", `${path.slice("onceflow/".length) || "index"}.js`),
    }));
    onResolve({ filter: /\/src\// }, ({ path, resolveDir }) => {
      const file = relative(join(root, ".build/src"), resolve(resolveDir, path));
      return file.startsWith("..") ? undefined : { path: join(dist, file) };
    });
    onLoad({ filter: /\.js$/ }, ({ path }) => {
      if (relative(dist, path).startsWith("..")) return undefined;
      const contents = readFileSync(path, "utf8").replace(
        /new URL\("(\.[^"]+\.js)", import\.meta\.url\)/g,
        (_, file: string) => `new URL(${JSON.stringify(pathToFileURL(resolve(dirname(path), file)).href)})`,
      );
      return { contents, loader: "js" };
    });
  },
};

/**
 * A package in CommonJS that is loaded by `import()` has only a default export in a bundle of several files, unlike in Node. So each
 * driver gets a module that exports its names.
 */
const namedExports: Plugin = {
  name: "named-exports",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[^./]/ }, ({ path, kind, resolveDir }) =>
      kind === "dynamic-import" && !isBuiltin(path) && !resolveDir.includes("node_modules")
        ? { path, namespace: "package", pluginData: resolveDir }
        : undefined,
    );
    onLoad({ filter: /.*/, namespace: "package" }, async ({ path, pluginData }) => {
      const names = Object.keys((await import(path)) as object).filter((name) => /^[a-zA-Z_$][\w$]*$/.test(name) && name !== "default");
      const contents = `
        import * as all from ${JSON.stringify(path)};
        export const { ${names.join(", ")} } = all;
        export default all["default"];`;
      return { contents, resolveDir: pluginData as string };
    });
  },
};

/** Changes the file only if its content differs, and at once: another run of the tests may be using it. */
function replace(path: string, contents: Uint8Array): void {
  if (currentOf(path)?.equals(contents)) return;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.${process.pid}`, contents);
  renameSync(`${path}.${process.pid}`, path);
}

function currentOf(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}
