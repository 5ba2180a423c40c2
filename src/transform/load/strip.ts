import remapping from "@jridgewell/remapping";
import { type HelperMode, transformSync } from "oxc-transform";
import { languageOf } from "../ast.js";
import type { Transformed } from "../transform.js";

/** Runtime helpers for `using` and decorators, which older versions of Node do not support. */
const lowered = new URL("./lowered.js", import.meta.url).href;

/** Compiles TypeScript or JSX, already transformed, to JavaScript for Node 20. The source map refers to the user's file. */
export function strip(
  file: string,
  code: string,
  earlier?: Transformed["map"],
): { readonly code: string; readonly map: object | undefined } {
  const lang = languageOf(file) ?? "ts";
  const stripped = transformSync(file, code, {
    lang,
    sourceType: "module",
    sourcemap: true,
    target: "es2022",
    jsx: { runtime: "automatic" },
    decorator: { legacy: true },
    helpers: { mode: "External" as HelperMode.External },
  });
  const [error] = stripped.errors.filter(({ severity }) => severity === "Error");
  if (error) throw new SyntaxError(`${file}: ${error.message}\n${error.codeframe ?? ""}`);
  // Appended at the end, so that no line moves; imports are hoisted.
  const helpers = Object.keys(stripped.helpersUsed).length > 0 ? `\nimport * as babelHelpers from ${JSON.stringify(lowered)};` : "";
  const map = stripped.map && (earlier ? remapping([stripped.map as never, earlier as never], () => null) : stripped.map);
  return { code: stripped.code + helpers, map };
}
