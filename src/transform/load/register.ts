import Module, { register } from "node:module";
import { refuseRequired } from "./required.js";

/**
 * `node --import onceflow/register app.ts`: directives work and TypeScript runs, without a build. Imported for what it
 * does. The hooks live in a thread of Node's; source maps are applied here, where stacks are made.
 */
register("./loader.js", import.meta.url);
process.setSourceMapsEnabled(true);

/** Node's own, which every file passes that require() loads. It is not among the types of Node. */
interface Compiling {
  _compile(this: unknown, code: string, file: string, ...rest: unknown[]): unknown;
}

const prototype = Module.prototype as unknown as Compiling;
const compile = prototype._compile;
prototype._compile = function _compile(code, file, ...rest) {
  refuseRequired(code, file);
  return Reflect.apply(compile, this, [code, file, ...rest]);
};
