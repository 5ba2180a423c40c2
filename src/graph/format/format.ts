import { isDeepStrictEqual } from "node:util";
import { type Document, isMap, isNode, isScalar, isSeq, Lexer, parseDocument, stringify, visit, type YAMLMap, type YAMLSeq } from "yaml";
import { type Finding, Findings, wholeFile } from "../findings/finding.js";
import { defaultLimits, type Limits } from "../load/limits.js";
import { loadTree } from "../load/load.js";
import { plainOf, pointerTo, type Tree } from "../load/tree.js";
import { inOrder, orderAt } from "./field-order.js";

/** Options of `formatFlow`. */
export interface TextOptions {
  /** File name, used in findings; `.json` means JSON, anything else YAML. Default "flow.yaml". */
  readonly file?: string;
}

/** The result of `formatFlow` or `convertFlow`. */
export interface Rewritten {
  /** The new text; the original text if it could not be read or changed. */
  readonly text: string;
  readonly changed: boolean;
  readonly findings: readonly Finding[];
}

const layout = { indent: 2, lineWidth: 120, minContentWidth: 40, flowCollectionPadding: true } as const;

/**
 * Formats a document: consistent layout, fields in a fixed order, comments kept. The result is parsed and compared with the
 * original: if a value or a comment would change, the text is returned unchanged with the finding FLOW_NOT_FORMATTED.
 *
 * @example
 * const { text, changed } = formatFlow(await readFile("orders.flowdsl.yaml", "utf8"));
 */
export function formatFlow(text: string, { file = "flow.yaml" }: TextOptions = {}): Rewritten {
  const findings = new Findings(defaultLimits.findingsMax);
  const tree = loadTree({ text, file }, defaultLimits, findings);
  if (tree === undefined) return { text, changed: false, findings: findings.list(file) };
  const attempts = /\.json$/i.test(file)
    ? [() => jsonText(ordered(tree, ""))]
    : [() => yamlText(text, "all"), () => yamlText(text, "below the top"), () => yamlText(text, "none")];
  for (const attempt of attempts) {
    const formatted = withEndsOf(text, attempt());
    if (formatted !== undefined && isSame(text, tree, formatted, file))
      return { text: formatted, changed: formatted !== text, findings: findings.list(file) };
  }
  findings.add(
    "FLOW_NOT_FORMATTED",
    wholeFile(file),
    "formatting would change a value or lose a comment; the document is left unchanged",
    "format it by hand",
  );
  return { text, changed: false, findings: findings.list(file) };
}

/** Options of `convertFlow`. */
export interface ConvertOptions extends TextOptions {
  readonly to: "yaml" | "json";
}

/** Converts a document to YAML or JSON. A document as JSON has no comments. */
export function convertFlow(text: string, { to, file = "flow.yaml" }: ConvertOptions): Rewritten {
  const findings = new Findings(defaultLimits.findingsMax);
  const tree = loadTree({ text, file }, defaultLimits, findings);
  if (tree === undefined) return { text, changed: false, findings: findings.list(file) };
  const converted = to === "json" ? jsonText(plainOf(tree)) : stringify(plainOf(tree), { ...layout, aliasDuplicateObjects: false });
  return { text: converted, changed: converted !== text, findings: findings.list(file) };
}

/** Uses the line ending of the first line: a checkout with CRLF must not make every file look unformatted. */
const withEndsOf = (text: string, formatted: string | undefined): string | undefined =>
  /^[^\n]*\r\n/.test(text) ? formatted?.replaceAll("\n", "\r\n") : formatted;

const jsonText = (value: unknown) => `${JSON.stringify(value, undefined, 2)}\n`;

function ordered(tree: Tree, pointer: string): unknown {
  if (tree.kind === "scalar") return tree.value;
  if (tree.kind === "list") return tree.items.map((item, i) => ordered(item, pointerTo(pointer, i)));
  const entries = inOrder([...tree.entries], ([name]) => name, orderAt(pointer) ?? []);
  return Object.fromEntries(entries.map(([name, { value }]) => [name, ordered(value, pointerTo(pointer, name))]));
}

/** Fields of the top level often define anchors, `x-defaults: &defaults`, and must then stay before the fields that use them. */
function yamlText(text: string, reorder: "all" | "below the top" | "none"): string | undefined {
  const document: Document.Parsed = parseDocument(text, { uniqueKeys: false });
  if (reorder === "all") {
    keepTitle(document);
    orderNode(document.contents, "");
  } else if (reorder === "below the top" && isMap(document.contents))
    for (const { key, value } of document.contents.items) orderNode(value, pointerTo("", isScalar(key) ? String(key.value) : ""));

  padLikePeople(document);
  try {
    return document.toString(layout);
  } catch {
    // Reordering has moved an alias before its anchor.
    return undefined;
  }
}

/** A comment at the top that is followed by a blank line belongs to the document, not to its first field. */
function keepTitle(document: Document.Parsed): void {
  const first = isMap(document.contents) ? document.contents.items[0]?.key : undefined;
  const above = isNode(first) ? first.commentBefore : undefined;
  const blank = above?.lastIndexOf("\n\n") ?? -1;
  if (!isNode(first) || typeof above !== "string" || blank < 0) return;
  document.commentBefore = [document.commentBefore, above.slice(0, blank)].filter((comment) => typeof comment === "string").join("\n\n");
  first.commentBefore = above.slice(blank + 2);
}

/** Writes `{ name: value }` with padding and `[one, two]` without; the library pads both or neither. */
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
  // The comment above the first field is stored with the map; if another field is first now, the comment moves with its field.
  if (first !== undefined && node.items[0] !== first && isNode(first.key) && typeof node.commentBefore === "string") {
    first.key.commentBefore = [node.commentBefore, first.key.commentBefore].filter((comment) => typeof comment === "string").join("\n");
    node.commentBefore = null;
  }
  for (const pair of node.items) orderNode(pair.value, pointerTo(pointer, nameOf(pair)));
}

/** Higher limits: a formatted document may have more lines than the original. */
const laidOut: Limits = { ...defaultLimits, bytesMax: 4 * defaultLimits.bytesMax, tokensMax: 4 * defaultLimits.tokensMax };

function isSame(text: string, tree: Tree, formatted: string, file: string): boolean {
  const again = loadTree({ text: formatted, file }, laidOut, new Findings(1));
  if (again === undefined || !isDeepStrictEqual(plainOf(tree), plainOf(again))) return false;
  return /\.json$/i.test(file) || isDeepStrictEqual(commentsOf(text), commentsOf(formatted));
}

/** Sorted, because comments move with their fields. */
function commentsOf(text: string): readonly string[] {
  const lexemes = [...new Lexer().lex(text)];
  return lexemes
    .flatMap((lexeme) => (lexeme.startsWith("#") ? [lexeme.slice(1).trim()] : []))
    .filter((comment) => comment !== "")
    .sort();
}
