import { isDeepStrictEqual } from "node:util";
import { type Document, isMap, isNode, isScalar, isSeq, Lexer, parseDocument, stringify, visit, type YAMLMap, type YAMLSeq } from "yaml";
import { type Finding, Findings, wholeFile } from "../findings/finding.js";
import { defaultLimits, type Limits } from "../load/limits.js";
import { loadTree } from "../load/load.js";
import { plainOf, pointerTo, type Tree } from "../load/tree.js";
import { inOrder, orderAt } from "./field-order.js";

export interface TextOptions {
  /** Its name says whether it is JSON; findings carry it. */
  readonly file?: string;
}

export interface Rewritten {
  /** What was given, if it could not be read. */
  readonly text: string;
  readonly changed: boolean;
  readonly findings: readonly Finding[];
}

const layout = { indent: 2, lineWidth: 120, minContentWidth: 40, flowCollectionPadding: true } as const;

/**
 * The same document, laid out alike and with its fields in one order. Comments are kept. What comes out is read again and
 * compared with what went in: if a comment or a value were to change, the text stays as it is.
 */
export function formatFlow(text: string, { file = "flow.yaml" }: TextOptions = {}): Rewritten {
  const findings = new Findings(defaultLimits.findingsMax);
  const tree = loadTree({ text, file }, defaultLimits, findings);
  if (tree === undefined) return { text, changed: false, findings: findings.list(file) };
  const attempts = /\.json$/i.test(file) ? [() => jsonText(ordered(tree, ""))] : [() => yamlText(text, true), () => yamlText(text, false)];
  for (const attempt of attempts) {
    const formatted = withEndsOf(text, attempt());
    if (formatted !== undefined && isSame(text, tree, formatted, file))
      return { text: formatted, changed: formatted !== text, findings: findings.list(file) };
  }
  findings.add(
    "FLOW_NOT_FORMATTED",
    wholeFile(file),
    "formatting would change a value or lose a comment; it is left as it is",
    "format it by hand",
  );
  return { text, changed: false, findings: findings.list(file) };
}

export interface ConvertOptions extends TextOptions {
  readonly to: "yaml" | "json";
}

/** YAML ↔ JSON. Comments are lost on the way to JSON: it has none. */
export function convertFlow(text: string, { to, file = "flow.yaml" }: ConvertOptions): Rewritten {
  const findings = new Findings(defaultLimits.findingsMax);
  const tree = loadTree({ text, file }, defaultLimits, findings);
  if (tree === undefined) return { text, changed: false, findings: findings.list(file) };
  const converted = to === "json" ? jsonText(plainOf(tree)) : stringify(plainOf(tree), { ...layout, aliasDuplicateObjects: false });
  return { text: converted, changed: converted !== text, findings: findings.list(file) };
}

/** Line ends follow the first line: a checkout with CRLF must not make every file look unformatted. */
const withEndsOf = (text: string, formatted: string | undefined): string | undefined =>
  /^[^\n]*\r\n/.test(text) ? formatted?.replaceAll("\n", "\r\n") : formatted;

const jsonText = (value: unknown) => `${JSON.stringify(value, undefined, 2)}\n`;

function ordered(tree: Tree, pointer: string): unknown {
  if (tree.kind === "scalar") return tree.value;
  if (tree.kind === "list") return tree.items.map((item, i) => ordered(item, pointerTo(pointer, i)));
  const entries = inOrder([...tree.entries], ([name]) => name, orderAt(pointer) ?? []);
  return Object.fromEntries(entries.map(([name, { value }]) => [name, ordered(value, pointerTo(pointer, name))]));
}

function yamlText(text: string, reorder: boolean): string | undefined {
  const document: Document.Parsed = parseDocument(text, { uniqueKeys: false });
  if (reorder) {
    keepTitle(document);
    orderNode(document.contents, "");
  }
  padLikePeople(document);
  try {
    return document.toString(layout);
  } catch {
    // An alias has come to stand before its anchor.
    return undefined;
  }
}

/** What stands above a blank line at the top is about the document, not about its first field. */
function keepTitle(document: Document.Parsed): void {
  const first = isMap(document.contents) ? document.contents.items[0]?.key : undefined;
  const above = isNode(first) ? first.commentBefore : undefined;
  const blank = above?.lastIndexOf("\n\n") ?? -1;
  if (!isNode(first) || typeof above !== "string" || blank < 0) return;
  document.commentBefore = [document.commentBefore, above.slice(0, blank)].filter((comment) => typeof comment === "string").join("\n\n");
  first.commentBefore = above.slice(blank + 2);
}

/** `{ name: value }`, but `[one, two]`: the library pads both or none. */
function padLikePeople(document: Document.Parsed): void {
  const padded = <T extends YAMLSeq | YAMLMap>(node: T, padding: string): void => {
    const write = node.toString.bind(node);
    node.toString = (context, ...rest) => write(context && { ...context, flowCollectionPadding: padding }, ...rest);
  };
  visit(document, { Seq: (_, node) => padded(node, ""), Map: (_, node) => padded(node, " ") });
}

function orderNode(node: unknown, pointer: string): void {
  if (isSeq(node)) for (const [i, item] of node.items.entries()) orderNode(item, pointerTo(pointer, i));
  if (!isMap(node)) return;
  const nameOf = ({ key }: { readonly key: unknown }) => (isScalar(key) ? String(key.value) : "");
  const order = orderAt(pointer);
  const [first] = node.items;
  if (order !== undefined) node.items = [...inOrder(node.items, nameOf, order)];
  // What stands above the first field is kept with the map; if another one is first now, it has to go along.
  if (first !== undefined && node.items[0] !== first && isNode(first.key) && typeof node.commentBefore === "string") {
    first.key.commentBefore = [node.commentBefore, first.key.commentBefore].filter((comment) => typeof comment === "string").join("\n");
    node.commentBefore = null;
  }
  for (const pair of node.items) orderNode(pair.value, pointerTo(pointer, nameOf(pair)));
}

/** What was on one line may be on many. */
const laidOut: Limits = { ...defaultLimits, bytesMax: 4 * defaultLimits.bytesMax, tokensMax: 4 * defaultLimits.tokensMax };

function isSame(text: string, tree: Tree, formatted: string, file: string): boolean {
  const again = loadTree({ text: formatted, file }, laidOut, new Findings(1));
  if (again === undefined || !isDeepStrictEqual(plainOf(tree), plainOf(again))) return false;
  return /\.json$/i.test(file) || isDeepStrictEqual(commentsOf(text), commentsOf(formatted));
}

/** Sorted: a comment moves with its field. */
function commentsOf(text: string): readonly string[] {
  const lexemes = [...new Lexer().lex(text)];
  return lexemes
    .flatMap((lexeme) => (lexeme.startsWith("#") ? [lexeme.slice(1).trim()] : []))
    .filter((comment) => comment !== "")
    .sort();
}
