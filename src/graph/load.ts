import { Composer, type Document, isAlias, isMap, isScalar, isSeq, Lexer, LineCounter, type ParsedNode, Parser } from "yaml";
import { type Findings, type Place, placeOf, wholeFile } from "./finding.js";
import type { Limits } from "./limits.js";
import { type Entry, pointerTo, type ScalarTree, type Source, type Tree } from "./tree.js";

interface Text {
  readonly text: string;
  readonly file: string;
}

/** Text → positioned tree, or findings. JSON is read as the YAML 1.2 that it is, so that both have positions. */
export function loadTree({ text, file }: Text, limits: Limits, findings: Findings): Tree | undefined {
  const bytes = Buffer.byteLength(text);
  if (bytes > limits.bytesMax) {
    findings.add("FLOW_TOO_LARGE", wholeFile(file), `${bytes} bytes; ${limits.bytesMax} are allowed`, "split the document");
    return undefined;
  }
  const lines = new LineCounter();
  const source: Source = { file, lines };
  const documents = compose(text.replace(/^\uFEFF/, ""), source, limits, findings);
  if (documents === undefined) return undefined;
  const [document, second] = documents;
  if (second !== undefined) {
    findings.add(
      "FLOW_SYNTAX",
      at(source, second.range[0]),
      "a second document begins here",
      "one file holds one document: remove the `---`",
    );
    return undefined;
  }
  if (document !== undefined && !reportSyntax(document, source, findings)) return undefined;
  if (!isStrictJson(text, source, findings)) return undefined;
  if (document === undefined || document.contents === null) {
    findings.add("FLOW_SYNTAX", wholeFile(file), "the document is empty", 'begin with `flowdsl: "1.0.0"`');
    return undefined;
  }
  return new Reader(source, limits, findings).read(document.contents, "", 0);
}

function at({ file, lines }: Source, offset: number): Place {
  const { line, col } = lines.linePos(offset);
  return { file, pointer: "", line: Math.max(line, 1), column: Math.max(col, 1) };
}

/**
 * The composer is recursive, and deep nesting kills the whole process in it, beyond any catch. So tokens are counted,
 * and depth is measured, before it sees anything.
 */
function compose(text: string, source: Source, limits: Limits, findings: Findings): Document.Parsed[] | undefined {
  source.lines.addNewLine(0);
  const parser = new Parser(source.lines.addNewLine);
  const tokens = [];
  let count = 0;
  for (const lexeme of new Lexer().lex(text)) {
    count += 1;
    tokens.push(...parser.next(lexeme));
    // Around the nested values the stack holds the document and the value under way.
    const tooDeep = parser.stack.length > limits.depthMax + 2;
    if (!tooDeep && count <= limits.tokensMax) continue;
    const bound = tooDeep ? `values are nested deeper than ${limits.depthMax} levels` : `more than ${limits.tokensMax} pieces of syntax`;
    findings.add("FLOW_TOO_LARGE", at(source, parser.offset), bound, tooDeep ? "flatten it" : "split the document");
    return undefined;
  }
  tokens.push(...parser.end());
  // A text can be wrong in a hundred thousand places; a stack trace for each of them would take a minute.
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 0;
  try {
    const options = { lineCounter: source.lines, uniqueKeys: false, version: "1.2", schema: "core", merge: false } as const;
    return [...new Composer<ParsedNode, true>(options).compose(tokens)];
  } finally {
    Error.stackTraceLimit = limit;
  }
}

const syntaxFindingsMax = 10;

function reportSyntax(document: Document.Parsed, source: Source, findings: Findings): boolean {
  for (const error of document.errors.slice(0, syntaxFindingsMax))
    findings.add("FLOW_SYNTAX", at(source, error.pos[0]), error.message.split("\n")[0] ?? "", "write it as YAML 1.2 or JSON");
  for (const warning of document.warnings.slice(0, syntaxFindingsMax))
    findings.add("FLOW_UNKNOWN_TAG", at(source, warning.pos[0]), warning.message.split("\n")[0] ?? "", "remove the tag");
  return document.errors.length === 0;
}

/** Other tools will read a .json file as JSON: what only YAML allows is refused in it. */
function isStrictJson(text: string, source: Source, findings: Findings): boolean {
  if (!/\.json$/i.test(source.file)) return true;
  try {
    JSON.parse(text.replace(/^\uFEFF/, ""));
    return true;
  } catch (error) {
    const message = (error as Error).message;
    const offset = Number(/position (\d+)/.exec(message)?.[1] ?? 0);
    findings.add(
      "FLOW_SYNTAX",
      at(source, offset),
      `not JSON, though the file's name says so: ${message.slice(0, 60)}`,
      "mend it, or name it .yaml",
    );
    return false;
  }
}

const plainInteger = /^[-+]?\d+$/;

class Reader {
  /** Undefined while the anchor's own value is being read: an alias to it there would be a circle. */
  readonly #anchors = new Map<string, Tree | undefined>();
  #broken = false;

  constructor(
    private readonly source: Source,
    private readonly limits: Limits,
    private readonly findings: Findings,
  ) {}

  read(node: ParsedNode, pointer: string, depth: number): Tree | undefined {
    const tree = this.#read(node, pointer, depth);
    return this.#broken ? undefined : tree;
  }

  #read(node: ParsedNode, pointer: string, depth: number): Tree {
    const { source } = this;
    const offset = node.range[0];
    const nothing: ScalarTree = { kind: "scalar", value: null, source, offset, size: 1 };
    if (this.#broken) return nothing;
    if (isAlias(node)) {
      const tree = this.#anchors.get(node.source);
      if (tree !== undefined) return tree;
      const known = this.#anchors.has(node.source);
      this.#refuse(
        "FLOW_BAD_REF",
        offset,
        pointer,
        known ? `*${node.source} is part of itself` : `there is no &${node.source}`,
        "write the value here",
      );
      return nothing;
    }
    if ("anchor" in node && node.anchor !== undefined) this.#anchors.set(node.anchor, undefined);
    const tree = isMap(node)
      ? this.#map(node.items, offset, pointer, depth)
      : isSeq(node)
        ? this.#list(node.items as ParsedNode[], offset, pointer, depth)
        : this.#scalar(node, pointer);
    if (tree.size > this.limits.nodesMax) {
      this.#refuse(
        "FLOW_TOO_LARGE",
        offset,
        pointer,
        `more than ${this.limits.nodesMax} values, aliases included`,
        "use fewer aliases, or split the document",
      );
      return nothing;
    }
    if ("anchor" in node && node.anchor !== undefined) this.#anchors.set(node.anchor, tree);
    return tree;
  }

  #map(items: readonly { readonly key: unknown; readonly value: unknown }[], offset: number, pointer: string, depth: number): Tree {
    const entries = new Map<string, Entry>();
    let size = 1;
    for (const { key, value } of items) {
      const name = isScalar(key) ? String(key.value ?? "") : undefined;
      const keyOffset = (key as ParsedNode | null)?.range?.[0] ?? offset;
      if (name === undefined) this.#refuse("FLOW_BAD_TYPE", keyOffset, pointer, "the name of a field must be a text", "quote it");
      else if (name === "__proto__")
        this.#refuse("FLOW_FORBIDDEN_KEY", keyOffset, pointer, "a field must not be named __proto__", "rename it");
      else if (entries.has(name))
        this.#refuse("FLOW_DUPLICATE_KEY", keyOffset, pointer, `"${name}" is written twice`, "remove one of them");
      if (this.#broken) break;
      const below = pointerTo(pointer, name ?? "");
      const tree = value === null ? this.#null(keyOffset) : this.#read(value as ParsedNode, below, depth + 1);
      entries.set(name ?? "", { keyOffset, value: tree });
      size += tree.size;
    }
    return { kind: "map", entries, source: this.source, offset, size };
  }

  #list(nodes: readonly ParsedNode[], offset: number, pointer: string, depth: number): Tree {
    const items = nodes.map((node, i) => this.#read(node, pointerTo(pointer, i), depth + 1));
    return { kind: "list", items, source: this.source, offset, size: items.reduce((sum, { size }) => sum + size, 1) };
  }

  #scalar(node: ParsedNode, pointer: string): ScalarTree {
    const offset = node.range[0];
    const raw: unknown = isScalar(node) ? node.value : null;
    const value = typeof raw === "string" || typeof raw === "number" || typeof raw === "boolean" ? raw : null;
    if (typeof value === "number") {
      const text = isScalar(node) ? (node.source ?? "") : "";
      const exact = Number.isFinite(value) && (!plainInteger.test(text) || Number.isSafeInteger(value));
      if (!exact)
        this.#refuse(
          "FLOW_BAD_NUMBER",
          offset,
          pointer,
          `${text.slice(0, 40)} is no number that JSON can hold exactly`,
          "quote it, if it is a name",
        );
    }
    return { kind: "scalar", value, source: this.source, offset, size: 1 };
  }

  #null(offset: number): ScalarTree {
    return { kind: "scalar", value: null, source: this.source, offset, size: 1 };
  }

  #refuse(
    code: "FLOW_BAD_REF" | "FLOW_TOO_LARGE" | "FLOW_BAD_TYPE" | "FLOW_FORBIDDEN_KEY" | "FLOW_DUPLICATE_KEY" | "FLOW_BAD_NUMBER",
    offset: number,
    pointer: string,
    message: string,
    fix: string,
  ): void {
    this.findings.add(code, placeOf({ tree: this.#null(offset), pointer }), message, fix);
    this.#broken = true;
  }
}
