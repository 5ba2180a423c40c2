import Module, { register } from "node:module";
import { refuseRequired } from "./required.js";

/**
 * `node --import onceflow/register app.ts`: directives work and TypeScript runs without a build. The module hooks run in
 * Node's loader thread; source maps are enabled here, in the thread that creates stack traces.
 */
register("./loader.js", import.meta.url);
process.setSourceMapsEnabled(true);

/** Internal method of Node through which every file loaded by require() passes. @types/node does not declare it. */
interface Compiling {
  _compile(this: unknown, code: string, file: string, ...rest: unknown[]): unknown;
}

const prototype = Module.prototype as unknown as Compiling;
const compile = prototype._compile;
prototype._compile = function _compile(code, file, ...rest) {
  refuseRequired(code, file);
  return Reflect.apply(compile, this, [code, file, ...rest]);
};
