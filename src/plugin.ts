import { resolve } from "node:path";
import { createUnplugin } from "unplugin";
import { InvalidInputError } from "./core/errors.js";
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
  const [wanted, unwanted] = [listOf("include", include), listOf("exclude", exclude)];
  // Not test(): with the flag g it remembers where it was.
  const matches = (file: string, patterns: readonly RegExp[]) => patterns.some((each) => file.search(each) >= 0);
  const isWanted = (file: string) => (wanted.length === 0 || matches(file, wanted)) && !matches(file, unwanted);
  return {
    name: "onceflow",
    enforce: "pre" as const,
    transform: {
      filter: { id: { include: /\.(?:[mc]?[jt]s|[jt]sx)(?:\?|$)/, exclude: /[\\/]node_modules[\\/]/ } },
      handler(code: string, id: string) {
        const file = resolve(id.replace(/[?#].*$/, ""));
        // What begins so was made up by another plugin.
        if (id.startsWith("\0") || !isProjectFile(file) || !isWanted(file)) return undefined;
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

function listOf(option: string, patterns: RegExp | readonly RegExp[] = []): readonly RegExp[] {
  const list = [patterns].flat();
  if (!list.every((each) => each instanceof RegExp)) throw new InvalidInputError(option, "must be a regular expression, or a list of them");
  return list;
}
