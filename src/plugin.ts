import { resolve } from "node:path";
import { createUnplugin } from "unplugin";
import { TransformError } from "./transform/errors.js";
import { isProjectFile, projectRoot } from "./transform/project.js";
import { transform } from "./transform/transform.js";

export interface PluginOptions {
  /** The folder that ids are relative to. Default: the nearest one with a package.json, from the working directory upwards. */
  readonly root?: string;
  /** Only files whose path matches one of these are transformed. Default: all. */
  readonly include?: RegExp | readonly RegExp[];
  /** Files whose path matches one of these are not, in addition to packages. */
  readonly exclude?: RegExp | readonly RegExp[];
}

/** For every bundler the same: files before anything else has touched them, errors with their place. */
export const plugin = createUnplugin<PluginOptions | undefined, false>(({ root: given, include, exclude } = {}) => {
  const root = given === undefined ? projectRoot() : resolve(given);
  const [wanted, unwanted] = [listOf(include), listOf(exclude)];
  const isWanted = (file: string) =>
    (wanted.length === 0 || wanted.some((each) => each.test(file))) && !unwanted.some((each) => each.test(file));
  return {
    name: "onceflow",
    enforce: "pre" as const,
    transform: {
      filter: { id: { include: /\.(?:[mc]?[jt]s|[jt]sx)(?:\?|$)/, exclude: /[\\/]node_modules[\\/]/ } },
      handler(code: string, id: string) {
        const file = resolve(id.replace(/[?#].*$/, ""));
        if (!isProjectFile(file) || !isWanted(file)) return undefined;
        try {
          return transform(code, { file, root });
        } catch (error) {
          if (!(error instanceof TransformError)) throw error;
          const { message, line, column } = error;
          return this.error({ id, message, loc: { file, line, column: column - 1 } });
        }
      },
    },
  };
});

function listOf(patterns: RegExp | readonly RegExp[] = []): readonly RegExp[] {
  return patterns instanceof RegExp ? [patterns] : patterns;
}
