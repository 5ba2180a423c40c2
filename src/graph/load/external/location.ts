import { realpath } from "node:fs/promises";
import { dirname, isAbsolute, join, relative, resolve, sep } from "node:path";

/**
 * Where a document is. `within` limits what the document itself may refer to: a file, to files in this folder; a document on the
 * network, to its own origin.
 */
export interface Location {
  /** A path relative to the working directory, or a URL without its fragment. */
  readonly key: string;
  readonly url?: URL;
  readonly within?: string;
}

const isUrl = (address: string) => /^[a-z][a-z0-9+.-]*:\/\//i.test(address) && URL.canParse(address);

/** Replaced addresses: the address as written in a document, and the path or URL to use in its place. */
export type References = Readonly<Record<string, string>>;

/** Resolves an address relative to the document that contains it. An address in `references` is replaced. */
export function locate(address: string, from: Location, references: References): Location {
  const replaced = Object.hasOwn(references, address) ? references[address] : undefined;
  if (replaced !== undefined) return isUrl(replaced) ? atUrl(new URL(replaced)) : { key: replaced, within: dirname(replaced) };
  if (isUrl(address)) return atUrl(new URL(address));
  if (from.url !== undefined && URL.canParse(address, from.url.href)) return atUrl(new URL(address, from.url));
  const key = isAbsolute(address) ? address : join(dirname(from.key), address);
  return { key, within: from.within ?? dirname(key) };
}

function atUrl(url: URL): Location {
  url.hash = "";
  return { key: url.href, url, within: url.origin };
}

/** Why a document must not be read from a document that was itself referred to; undefined if it may be. */
export async function outside(to: Location, from: Location): Promise<string | undefined> {
  if (from.within === undefined) return undefined;
  if (from.url !== undefined)
    return to.url?.origin === from.within ? undefined : `is not on the server of the document that refers to it, ${from.within}`;
  if (to.url !== undefined) return undefined;
  const [folder, file] = await Promise.all([realOf(from.within), realOf(to.key)]);
  const path = relative(folder, file);
  return path === ".." || path.startsWith(`..${sep}`) || isAbsolute(path) ? `is outside of the folder ${from.within}` : undefined;
}

/** With all links followed: a link must not lead out of the folder. A file that does not exist is reported when it is read. */
async function realOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch {
    return await realpath(dirname(path)).then(
      (folder) => join(folder, path.slice(dirname(path).length)),
      () => resolve(path),
    );
  }
}
