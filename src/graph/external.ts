import { readFile, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { Fields } from "./fields.js";
import type { Findings } from "./finding.js";
import type { Limits } from "./limits.js";
import { loadTree } from "./load.js";
import { entriesOf, type Spot, type Tree } from "./tree.js";

const prefixShape = /^((?:asyncapi|openapi)(?::[\w-]+)?)#/;

/** `asyncapi:payments#/…` → `asyncapi:payments` */
export const externalPrefix = (ref: string): string | undefined => prefixShape.exec(ref)?.[1];

export interface External {
  /** Undefined: it was not loaded, and why has been said. */
  readonly documents: ReadonlyMap<string, Tree | undefined>;
}

export interface ExternalOptions {
  readonly allowRemote: boolean;
  readonly limits: Limits;
}

/** Loads the AsyncAPI and OpenAPI documents that something refers to, and no others. */
export async function loadExternal(root: Tree, { allowRemote, limits }: ExternalOptions, findings: Findings): Promise<External> {
  const documents = new Map<string, Tree | undefined>();
  const used = prefixesIn(root);
  const declared = [...declarations(root, findings)].filter(([prefix]) => used.has(prefix));
  for (const [prefix, at] of declared.slice(0, limits.documentsMax)) {
    const address = at.tree.kind === "scalar" ? String(at.tree.value) : "";
    const isRemote = /^[a-z][a-z0-9+.-]*:\/\//i.test(address);
    if (isRemote && !allowRemote)
      findings.add(
        "FLOW_REMOTE_NOT_LOADED",
        at,
        `${prefix} is on the network; packets that refer to it are not checked`,
        "allow it (--allow-remote), or use a local copy",
      );
    const text = isRemote
      ? allowRemote && (await fetchText(address, limits))
      : await readText(resolve(dirname(root.source.file), address), limits);
    if (text !== false && typeof text !== "string")
      findings.add("FLOW_UNREADABLE", at, `${prefix} cannot be read: ${text.problem}`, "mend the path or the address");
    documents.set(prefix, typeof text === "string" ? loadTree({ text, file: address }, limits, findings) : undefined);
  }
  for (const [prefix, at] of declared.slice(limits.documentsMax)) {
    findings.add("FLOW_TOO_LARGE", at, `more than ${limits.documentsMax} other documents`, "refer to fewer");
    documents.set(prefix, undefined);
  }
  return { documents };
}

/** `externalDocs`, and in form B also `asyncapi:` and `openapi:` at the top. */
function declarations(root: Tree, findings: Findings): ReadonlyMap<string, Spot> {
  const top = Fields.of({ tree: root, pointer: "" }, findings);
  const docs = top?.fields("externalDocs");
  const found = new Map<string, Spot>();
  for (const kind of ["asyncapi", "openapi"]) {
    for (const spot of [top?.at(kind), docs?.at(kind)]) {
      if (spot?.tree.kind === "scalar") found.set(kind, spot);
      else if (spot?.tree.kind === "map")
        for (const { name, ...at } of entriesOf(spot)) found.set(name === "default" ? kind : `${kind}:${name}`, at);
    }
  }
  docs?.text("description");
  docs?.done();
  return found;
}

/** Every text that begins like a reference to another document. Shared trees are looked at once. */
function prefixesIn(root: Tree): ReadonlySet<string> {
  const found = new Set<string>();
  const seen = new Set<Tree>();
  const pending: Tree[] = [root];
  for (let tree = pending.pop(); tree !== undefined; tree = pending.pop()) {
    if (seen.has(tree)) continue;
    seen.add(tree);
    if (tree.kind === "scalar") {
      const prefix = typeof tree.value === "string" ? externalPrefix(tree.value) : undefined;
      if (prefix !== undefined) found.add(prefix);
    } else pending.push(...(tree.kind === "list" ? tree.items : [...tree.entries.values()].map(({ value }) => value)));
  }
  return found;
}

export interface Unread {
  readonly problem: string;
}

/** Regular files of a bounded size only: a device or a pipe would be read for ever. */
export async function readText(path: string, { bytesMax }: Limits): Promise<string | Unread> {
  try {
    const { size, ...info } = await stat(path).then((found) => ({ size: found.size, isFile: found.isFile() }));
    if (!info.isFile) return { problem: "it is not a file" };
    if (size > bytesMax) return { problem: `it has ${size} bytes; ${bytesMax} are allowed` };
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await readFile(path));
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    return {
      problem:
        code === "ENOENT"
          ? "there is no such file"
          : code === "ERR_ENCODING_INVALID_ENCODED_DATA"
            ? "it is not UTF-8"
            : String(code ?? error),
    };
  }
}

/** Bounded in time and size, and without redirects: the address that was allowed is the one that is asked. */
async function fetchText(address: string, { bytesMax, fetchMsMax }: Limits): Promise<string | Unread> {
  if (!/^https?:/i.test(address)) return { problem: "only http and https are followed" };
  try {
    const response = await fetch(address, { redirect: "error", signal: AbortSignal.timeout(fetchMsMax) });
    if (!response.ok || response.body === null) return { problem: `it answered ${response.status}` };
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for await (const part of response.body) {
      bytes += part.length;
      if (bytes > bytesMax) return { problem: `it has more than ${bytesMax} bytes` };
      parts.push(part);
    }
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(parts));
  } catch (error) {
    return { problem: (error as Error).name === "TimeoutError" ? `no answer within ${fetchMsMax} ms` : "the request failed" };
  }
}
