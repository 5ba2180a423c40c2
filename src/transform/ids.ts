import type { MarkedFunction } from "./directives.js";
import { packageOf, pathFrom } from "./load/package-of.js";
import { isPackageFile } from "./load/project.js";

/** The id of a marked function, followed by the ids that earlier versions gave it. */
type Ids = readonly [id: string, ...former: string[]];

/** Several functions of a file that had the same id in version 0.1. */
interface SharedId {
  readonly kind: MarkedFunction["kind"];
  readonly former: string;
  readonly ids: readonly string[];
}

export interface IdsOfFile {
  readonly of: (marked: MarkedFunction) => Ids;
  /** The name under which instances of a class of this file are stored. */
  readonly ofClass: (name: string) => string;
  readonly shared: readonly SharedId[];
}

/**
 * Ids have the form `step//package//path in the package//path of the function`. They use the name of the package and not
 * the working directory, so that every process gives a function the same id. If no package has a name, the path of the file
 * is relative to `root`. That second form is a former id of every function: version 0.1 had only this form, and a package
 * may get its name later.
 */
export function idsOfFile(file: string, root: string, marked: readonly MarkedFunction[]): IdsOfFile {
  const pack = packageOf(file);
  const inRoot = escaped(pathFrom(root, file));
  const fileId = pack === undefined ? inRoot : `${escaped(pack.name)}//${escaped(pathFrom(pack.folder, file))}`;
  const idOf = ({ kind, path }: MarkedFunction) => `${kind}//${fileId}//${escaped(path)}`;
  const present = new Set(marked.map(idOf));
  const formerOf = ({ kind, path, formerPath }: MarkedFunction): string[] => {
    // Version 0.1 did not transform packages.
    if (isPackageFile(file)) return [];
    const former = new Set([path, formerPath].map((each) => `${kind}//${inRoot}//${escaped(each)}`));
    // A current id of one function cannot be a former id of another.
    return [...former].filter((each) => !present.has(each));
  };
  const sharedOf = (former: string): SharedId[] => {
    const [first, ...others] = marked.filter((each) => formerOf(each).includes(former));
    return first === undefined || others.length === 0 ? [] : [{ kind: first.kind, former, ids: [first, ...others].map(idOf) }];
  };
  return {
    ofClass: (name) => `class//${fileId}//${escaped(name)}`,
    of: (each) => [idOf(each), ...formerOf(each)],
    shared: [...new Set(marked.flatMap(formerOf))].flatMap(sharedOf),
  };
}

/** Names in the journal contain neither `#` nor control characters. */
function escaped(text: string): string {
  return text.replace(/[#\p{Cc}]/gu, encodeURIComponent);
}
