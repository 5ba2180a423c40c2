import type { Marked } from "./directives.js";
import { packageOf, pathFrom } from "./load/package-of.js";
import { isPackageFile } from "./load/project.js";

/** The names of a function that is marked: its id, and the ids that earlier versions gave it. */
type Ids = readonly [id: string, ...former: string[]];

/** Several functions of a file that version 0.1 would have given one id. */
interface SharedId {
  readonly kind: Marked["kind"];
  readonly former: string;
  readonly ids: readonly string[];
}

export interface IdsOfFile {
  readonly of: (marked: Marked) => Ids;
  /** The name that instances of a class of this file are stored under. */
  readonly ofClass: (name: string) => string;
  readonly shared: readonly SharedId[];
}

/**
 * `step//package//path in the package//path of the function`. The name of the package, and not the folder that a process
 * happens to work in, so that every process gives a function the same id. Where no package has a name, the path of the
 * file is relative to `root`. Ids of that form are former ids of every function: version 0.1 knew no other form, and a
 * package may get its name later.
 */
export function idsOfFile(file: string, root: string, marked: readonly Marked[]): IdsOfFile {
  const pack = packageOf(file);
  const inRoot = escaped(pathFrom(root, file));
  const place = pack === undefined ? inRoot : `${escaped(pack.name)}//${escaped(pathFrom(pack.folder, file))}`;
  const idOf = ({ kind, path }: Marked) => `${kind}//${place}//${escaped(path)}`;
  const present = new Set(marked.map(idOf));
  const formerOf = ({ kind, path, formerPath }: Marked): string[] => {
    // Version 0.1 did not transform packages.
    if (isPackageFile(file)) return [];
    const former = new Set([path, formerPath].map((each) => `${kind}//${inRoot}//${escaped(each)}`));
    // An id that a function has now is that function's.
    return [...former].filter((each) => !present.has(each));
  };
  const sharedOf = (former: string): SharedId[] => {
    const [first, ...others] = marked.filter((each) => formerOf(each).includes(former));
    return first === undefined || others.length === 0 ? [] : [{ kind: first.kind, former, ids: [first, ...others].map(idOf) }];
  };
  return {
    ofClass: (name) => `class//${place}//${escaped(name)}`,
    of: (each) => [idOf(each), ...formerOf(each)],
    shared: [...new Set(marked.flatMap(formerOf))].flatMap(sharedOf),
  };
}

/** Names in the journal have neither of these. */
function escaped(text: string): string {
  return text.replace(/[#\p{Cc}]/gu, encodeURIComponent);
}
