import { closest } from "../../../core/errors/closest.js";
import type { Findings } from "../../findings/finding.js";
import type { FindingCode } from "../../findings/finding-codes.js";
import { Fields } from "../../normalise/fields.js";
import type { SchemaDraft } from "../../schema/drafts.js";
import type { Limits } from "../limits.js";
import { loadTree } from "../load.js";
import { readText } from "../read-text.js";
import { childOf, entriesOf, follow, type Source, type Spot, type Tree } from "../tree.js";
import { fetchText } from "./fetch-text.js";
import { type Location, locate, outside, type References } from "./location.js";
import { referencesBelow } from "./references-in.js";

const prefixShape = /^((?:asyncapi|openapi)(?::[\w-]+)?)#/;
const pathShape = /^(?:\.{0,2}\/|[a-z][a-z0-9+.-]*:\/\/)|\.(?:json|ya?ml)(?:#|$)/i;

/** `asyncapi:payments#/…` → `asyncapi:payments` */
const externalPrefix = (ref: string): string | undefined => prefixShape.exec(ref)?.[1];

/** Whether a reference leads to another document: `asyncapi#/…`, `openapi:billing#/…`, `./packets.yaml#/Order`. */
export const isExternal = (ref: string): boolean => externalPrefix(ref) !== undefined || (!ref.startsWith("#") && pathShape.test(ref));

/** The target of a reference, or why there is none. `reported`: a finding says so already. */
export type Target = { readonly spot: Spot } | { readonly problem: string; readonly fix?: string } | "reported";

export interface ExternalOptions {
  readonly allowRemote: boolean;
  readonly limits: Limits;
  readonly references: References;
}

interface Declared {
  readonly address: string;
  readonly at: Spot;
}

/**
 * Why a document was not loaded. Reported when a reference to it is followed: documents are loaded before the schemas are compiled,
 * when it is not yet known whether a `$ref` is a reference or part of an `enum` or an example.
 */
interface NotLoaded {
  readonly kind: "not loaded";
  readonly code: FindingCode;
  readonly at: Spot;
  readonly message: string;
  readonly fix: string;
}

/** The documents that a flow document refers to, directly and through each other. `open` loads them, `find` follows references. */
export class External {
  /** Undefined for a document that was read and is not valid; findings say why. */
  readonly #trees = new Map<string, Tree | NotLoaded | undefined>();
  readonly #locations = new Map<Source, Location>();
  readonly #declared: ReadonlyMap<string, Declared>;

  constructor(
    private readonly root: Tree,
    private readonly options: ExternalOptions,
    private readonly findings: Findings,
  ) {
    this.#declared = declarations(root, findings);
    this.#locations.set(root.source, { key: root.source.file });
  }

  /** Loads every document that can be reached: from the flow document, and then from the parts of documents that are referred to. */
  async open(): Promise<this> {
    const seen = new Set<Tree>();
    const pending = [...referencesBelow({ tree: this.root, pointer: "" }, seen)].filter(({ ref }) => isExternal(ref));
    for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
      const { ref, from, toFlow } = next;
      if (isExternal(ref)) await this.#load(ref, from);
      const target = toFlow ? undefined : this.#resolve(ref, from);
      if (typeof target === "object" && "spot" in target && target.spot.tree.source !== this.root.source)
        pending.push(...referencesBelow(target.spot, seen));
    }
    return this;
  }

  /** Follows a reference from this place, and reports a document that was not loaded. */
  find(ref: string, from: Spot): Target {
    const target = this.#resolve(ref, from);
    if (target === "reported" || !("kind" in target)) return target;
    this.findings.add(target.code, target.at, target.message, target.fix);
    return "reported";
  }

  #resolve(ref: string, from: Spot): Target | NotLoaded {
    const [address = "", fragment = ""] = splitRef(ref);
    const prefix = externalPrefix(ref);
    const declared = prefix === undefined ? undefined : this.#declared.get(prefix);
    if (prefix !== undefined && declared === undefined) return { problem: `requires externalDocs.${prefix.replace(":", ".")}` };
    const tree = address === "" ? this.#documentOf(from) : this.#treeAt(declared?.address ?? address, declared?.at ?? from);
    if (tree === undefined) return "reported";
    if (tree.kind === "not loaded") return tree;
    if (fragment !== "" && !fragment.startsWith("/")) return { problem: "is not a JSON pointer", fix: "use `#/path/to/it`" };
    const spot = follow(tree, fragment);
    return spot === undefined ? { problem: "was not found in that document", ...nearIn(tree, fragment) } : { spot };
  }

  /** Where the document of a reference is: for a flow that the runtime loads. Undefined: it was not loaded. */
  fileOf(ref: string, from: Spot): string | undefined {
    const { key } = this.#locate(splitRef(ref)[0] ?? "", from);
    return isTree(this.#trees.get(key)) ? key : undefined;
  }

  /** The version of JSON Schema in the document of this place. AsyncAPI, OpenAPI 3.0 and flow documents use draft-07. */
  draftOf(spot: Spot): SchemaDraft {
    const document = this.#documentOf(spot);
    const [openapi, schema] = ["openapi", "$schema"].map((name) => {
      const tree = document && childOf({ tree: document, pointer: "" }, name)?.tree;
      return tree?.kind === "scalar" ? String(tree.value) : "";
    });
    return /^3\.[1-9]/.test(openapi ?? "") || /2019-09|2020-12/.test(schema ?? "") ? "2020-12" : "draft-07";
  }

  #documentOf({ tree: { source } }: Spot): Tree | undefined {
    return source === this.root.source ? this.root : [...this.#trees.values()].filter(isTree).find((tree) => tree.source === source);
  }

  #treeAt(address: string, from: Spot): Tree | NotLoaded | undefined {
    return this.#trees.get(this.#locate(address, from).key);
  }

  #locate(address: string, { tree: { source } }: Spot): Location {
    return locate(address, this.#locations.get(source) ?? { key: source.file }, this.options.references);
  }

  async #load(ref: string, from: Spot): Promise<void> {
    const prefix = externalPrefix(ref);
    const declared = prefix === undefined ? { address: splitRef(ref)[0] ?? "", at: from } : this.#declared.get(prefix);
    if (declared === undefined) return;
    const { address, at } = declared;
    const name = prefix ?? `"${shown(address)}"`;
    const to = this.#locate(address, at);
    if (this.#trees.has(to.key)) return;
    const tree = await this.#read({ name, address, at, to });
    this.#trees.set(to.key, tree);
    if (isTree(tree)) this.#locations.set(tree.source, to);
  }

  async #read({
    name,
    address,
    at,
    to,
  }: Declared & { readonly name: string; readonly to: Location }): Promise<Tree | NotLoaded | undefined> {
    const { allowRemote, limits, references } = this.options;
    const notLoaded = (code: FindingCode, message: string, fix: string): NotLoaded => ({ kind: "not loaded", code, at, message, fix });
    const replaced = Object.hasOwn(references, address);
    const from = this.#locations.get(at.tree.source);
    if (this.#trees.size >= limits.documentsMax)
      return notLoaded("FLOW_TOO_LARGE", `refers to more than ${limits.documentsMax} other documents`, "refer to fewer");
    const forbidden = replaced || from === undefined ? undefined : await outside(to, from);
    if (forbidden !== undefined) {
      const fix = `allow it by naming the file: references: { ${JSON.stringify(shown(address))}: "…" }, or --reference`;
      return notLoaded("FLOW_BAD_REF", `${name} ${forbidden}`, fix);
    }
    if (to.url !== undefined && !allowRemote) return notLoaded(...onNetwork(name, to.url));
    const file = to.url === undefined ? to.key : `${to.url.origin}${to.url.pathname}`;
    const text = to.url === undefined ? await readText(file, limits.bytesMax) : await fetchText(to.url, limits);
    if (typeof text === "string" && text.trim() === "")
      return notLoaded("FLOW_UNREADABLE", `${name} is empty`, "correct the path or the file");
    if (typeof text === "string") return loadTree({ text, file }, limits, this.findings);
    const isServerPath = text.code === "FLOW_UNREADABLE" && address.startsWith("/") && !replaced;
    const fix = isServerPath ? `${text.fix}, or name a local copy: --reference ${shown(address)}=./file` : text.fix;
    return notLoaded(text.code, `${name} cannot be read: ${text.problem}`, fix);
  }
}

const isTree = (tree: Tree | NotLoaded | undefined): tree is Tree => tree !== undefined && tree.kind !== "not loaded";

/** `./packets.yaml#/Order` → `./packets.yaml`, `/Order` */
const splitRef = (ref: string): readonly string[] => {
  const hash = ref.indexOf("#");
  return hash < 0 ? [ref, ""] : [ref.slice(0, hash), ref.slice(hash + 1)];
};

/** Without the query of a URL, which may contain a token, and without user name and password. */
const shown = (address: string): string =>
  address
    .replace(/[?#].*$/s, "")
    .replace(/\/\/[^/@]*@/, "//")
    .slice(0, 100);

/** The name in the target's map that the reference probably means. */
function nearIn(tree: Tree, fragment: string): { readonly fix?: string } {
  const end = fragment.lastIndexOf("/");
  const outer = follow(tree, fragment.slice(0, end));
  const near =
    outer &&
    closest(
      fragment.slice(end + 1),
      entriesOf(outer).map(({ name }) => name),
    );
  return near === undefined ? {} : { fix: `did you mean "${fragment.slice(0, end)}/${near}"?` };
}

/** A document in `externalDocs` describes packets, and a flow runs without it; a reference in a schema or to a flow needs its target. */
function onNetwork(name: string, { protocol }: URL): readonly [FindingCode, string, string] {
  const isDeclared = !name.startsWith('"');
  const followed = /^https?:$/.test(protocol);
  const where = followed ? "on the network" : `at a ${protocol} address`;
  return [
    isDeclared ? "FLOW_REMOTE_NOT_LOADED" : "FLOW_BAD_REF",
    `${name} is ${where}${isDeclared ? "; packets that refer to it are not checked" : ", and was not loaded"}`,
    followed ? "allow remote documents (--allow-remote), or use a local copy (--reference)" : "use a local copy (--reference)",
  ];
}

/** The documents declared in `externalDocs` and, in form B, in `asyncapi:` and `openapi:` at the top level. */
function declarations(root: Tree, findings: Findings): ReadonlyMap<string, Declared> {
  const top = Fields.of({ tree: root, pointer: "" }, findings);
  const docs = top?.fields("externalDocs");
  const found = new Map<string, Declared>();
  const declare = (name: string, at: Spot) => found.set(name, { at, address: at.tree.kind === "scalar" ? String(at.tree.value) : "" });
  for (const kind of ["asyncapi", "openapi"]) {
    for (const spot of [top?.at(kind), docs?.at(kind)]) {
      if (spot?.tree.kind === "scalar") declare(kind, spot);
      else if (spot?.tree.kind === "map")
        for (const { name, ...at } of entriesOf(spot)) declare(name === "default" ? kind : `${kind}:${name}`, at);
    }
  }
  docs?.text("description");
  docs?.done();
  return found;
}
