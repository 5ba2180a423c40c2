import { dirname, isAbsolute, join } from "node:path";
import type { Findings } from "../findings/finding.js";
import { Fields } from "../normalise/fields.js";
import type { Limits } from "./limits.js";
import { loadTree } from "./load.js";
import { readText, tooLarge, type Unread, unread } from "./read-text.js";
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
    const url = /^[a-z][a-z0-9+.-]*:\/\//i.test(address) && URL.canParse(address) ? new URL(address) : undefined;
    if (url !== undefined && !allowRemote) {
      tellNotLoaded(prefix, url, at, findings);
      documents.set(prefix, undefined);
      continue;
    }
    const file = url === undefined ? besides(root.source.file, address) : `${url.origin}${url.pathname}`;
    const text = url === undefined ? await readText(file, limits.bytesMax) : await fetchText(url, limits);
    if (typeof text !== "string") findings.add(text.code, at, `${prefix} cannot be read: ${text.problem}`, text.fix);
    documents.set(prefix, typeof text === "string" ? loadTree({ text, file }, limits, findings) : undefined);
  }
  for (const [prefix, at] of declared.slice(limits.documentsMax)) {
    findings.add("FLOW_TOO_LARGE", at, `more than ${limits.documentsMax} other documents`, "refer to fewer");
    documents.set(prefix, undefined);
  }
  return { documents };
}

/** Relative to the document that names it; and, like that one's, a path from where we are. */
const besides = (document: string, path: string): string => (isAbsolute(path) ? path : join(dirname(document), path));

function tellNotLoaded(prefix: string, { protocol }: URL, at: Spot, findings: Findings): void {
  const followed = /^https?:$/.test(protocol);
  findings.add(
    "FLOW_REMOTE_NOT_LOADED",
    at,
    `${prefix} is ${followed ? "on the network" : `at a ${protocol} address`}; packets that refer to it are not checked`,
    followed ? "allow it (--allow-remote), or use a local copy" : "use a local copy",
  );
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

/** Bounded in time and size, and without redirects: the address that was allowed is the one that is asked. */
async function fetchText(address: URL, { bytesMax, fetchMsMax }: Limits): Promise<string | Unread> {
  if (!/^https?:$/.test(address.protocol)) return unread("only http and https are followed");
  if (address.username !== "" || address.password !== "") return unread("its address has a user name or a password, which are not sent");
  try {
    const response = await fetch(address, { redirect: "manual", signal: AbortSignal.timeout(fetchMsMax) });
    if (!response.ok || response.body === null) {
      await response.body?.cancel();
      const redirected = response.status >= 300 && response.status < 400;
      return unread(`it answered ${response.status}${redirected ? ", and redirects are not followed" : ""}`);
    }
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for await (const part of response.body) {
      bytes += part.length;
      if (bytes > bytesMax) return tooLarge(`it has more than ${bytesMax} bytes`);
      parts.push(part);
    }
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(parts));
  } catch (error) {
    return unread((error as Error).name === "TimeoutError" ? `no answer within ${fetchMsMax} ms` : "the request failed");
  }
}
