import * as modules from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** The URL of this file, or of the bundle that it is in. A bundle in CommonJS format has no `import.meta.url`. */
export const ownUrl: string = import.meta.url ?? pathToFileURL(__filename).href;

// As a value: webpack would follow a call of the imported `createRequire`, and replace what it returns.
const { createRequire } = modules;

/** Loads an optional package when it is needed. Bundlers do not see it, so the package stays outside of a bundle. */
export function requireOptional(name: string): unknown {
  try {
    return createRequire(ownUrl)(name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "MODULE_NOT_FOUND") throw error;
    // In a bundle made by webpack, `import.meta.url` is the place on the machine that made it.
    return createRequire(join(process.cwd(), "package.json"))(name);
  }
}
