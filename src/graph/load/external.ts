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
  /** Undefined for a document that was not loaded; a finding gives the reason. */
  readonly documents: ReadonlyMap<string, Tree | undefined>;
}

export interface ExternalOptions {
  readonly allowRemote: boolean;
  readonly limits: Limits;
}

/** Loads the AsyncAPI and OpenAPI documents that the flow document refers to. */
export async function loadExternal(root: Tree, { allowRemote, limits }: ExternalOptions, findings: Findings): Promise<External> {
  const documents = new Map<string, Tree | undefined>();
  const used = prefixesIn(root);
  const declared = [...declarations(root, findings)].filter(([prefix]) => used.has(prefix));
  for (const [prefix, at] of declared.slice(0, limits.documentsMax)) {
    const address = at.tree.kind === "scalar" ? String(at.tree.value) : "";
    const url = /^[a-z][a-z0-9+.-]*:\/\//i.test(address) && URL.canParse(address) ? new URL(address) : undefined;
    if (url !== undefined && !allowRemote) {
      reportNotLoaded(prefix, url, at, findings);
      documents.set(prefix, undefined);
      continue;
    }
    const file = url === undefined ? relativeTo(root.source.file, address) : `${url.origin}${url.pathname}`;
    const text = url === undefined ? await readText(file, limits.bytesMax) : await fetchText(url, limits);
    if (typeof text !== "string") findings.add(text.code, at, `${prefix} cannot be read: ${text.problem}`, text.fix);
    documents.set(prefix, typeof text === "string" ? loadTree({ text, file }, limits, findings) : undefined);
  }
  for (const [prefix, at] of declared.slice(limits.documentsMax)) {
    findings.add("FLOW_TOO_LARGE", at, `refers to more than ${limits.documentsMax} other documents`, "refer to fewer");
    documents.set(prefix, undefined);
  }
  return { documents };
}

/** Resolves a path relative to the document that names it. The result stays relative to the working directory. */
const relativeTo = (document: string, path: string): string => (isAbsolute(path) ? path : join(dirname(document), path));

function reportNotLoaded(prefix: string, { protocol }: URL, at: Spot, findings: Findings): void {
  const followed = /^https?:$/.test(protocol);
  findings.add(
    "FLOW_REMOTE_NOT_LOADED",
    at,
    `${prefix} is ${followed ? "on the network" : `at a ${protocol} address`}; packets that refer to it are not checked`,
    followed ? "allow remote documents (--allow-remote), or use a local copy" : "use a local copy",
  );
}

/** The documents declared in `externalDocs` and, in form B, in `asyncapi:` and `openapi:` at the top level. */
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

/** The prefixes of all references to other documents. Visits shared trees once. */
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

/** Fetches with limits on time and size. Redirects are not followed: only the allowed address is requested. */
async function fetchText(address: URL, { bytesMax, fetchMsMax }: Limits): Promise<string | Unread> {
  if (!/^https?:$/.test(address.protocol)) return unread("only http and https addresses are supported");
  if (address.username !== "" || address.password !== "") return unread("its address must not contain a user name or password");
  try {
    const response = await fetch(address, { redirect: "manual", signal: AbortSignal.timeout(fetchMsMax) });
    if (!response.ok || response.body === null) {
      await response.body?.cancel();
      const redirected = response.status >= 300 && response.status < 400;
      return unread(`the server responded with ${response.status}${redirected ? "; redirects are not followed" : ""}`);
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
    return unread((error as Error).name === "TimeoutError" ? `no response within ${fetchMsMax} ms` : "the request failed");
  }
}
