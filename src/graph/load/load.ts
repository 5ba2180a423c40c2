import { Composer, type Document, Lexer, LineCounter, type ParsedNode, Parser } from "yaml";
import { printable } from "../../core/errors/printable.js";
import { type Findings, type Place, wholeFile } from "../findings/finding.js";
import type { Limits } from "./limits.js";
import { TreeReader } from "./read-tree.js";
import { jsonProblem } from "./strict-json.js";
import type { Source, Tree } from "./tree.js";

interface Text {
  readonly text: string;
  readonly file: string;
}

/** Parses a text to a tree with positions; undefined, with findings, if that fails. JSON is parsed as YAML 1.2 to get positions. */
export function loadTree({ text: written, file }: Text, limits: Limits, findings: Findings): Tree | undefined {
  const bytes = Buffer.byteLength(written);
  if (bytes > limits.bytesMax) {
    findings.add(
      "FLOW_TOO_LARGE",
      wholeFile(file),
      `the document has ${bytes} bytes; the maximum is ${limits.bytesMax}`,
      "split the document",
    );
    return undefined;
  }
  const lines = new LineCounter();
  const source: Source = { file, lines };
  const text = written.replace(/^\uFEFF/, "");
  const documents = compose(text, source, limits, findings);
  if (documents === undefined || hasNul(text, source, findings)) return undefined;
  const [document, second] = documents;
  if (second !== undefined) {
    findings.add(
      "FLOW_SYNTAX",
      at(source, second.range[0]),
      "a second document starts here",
      "use one document per file: remove the `---`",
    );
    return undefined;
  }
  if (document !== undefined && !reportSyntax(document, source, findings)) return undefined;
  if (!isStrictJson(text, source, findings)) return undefined;
  if (document === undefined || document.contents === null) {
    findings.add("FLOW_SYNTAX", wholeFile(file), "the document is empty", 'start with `flowdsl: "1.0.0"`');
    return undefined;
  }
  return new TreeReader(source, limits, findings).read(document.contents);
}

function at({ file, lines }: Source, offset: number): Place {
  const { line, col } = lines.linePos(offset);
  return { file, pointer: "", line: Math.max(line, 1), column: Math.max(col, 1) };
}

/**
 * The composer is recursive: deep nesting would overflow the stack and crash the process. So tokens and nesting are limited
 * before it runs.
 */
function compose(text: string, source: Source, limits: Limits, findings: Findings): Document.Parsed[] | undefined {
  source.lines.addNewLine(0);
  const parser = new Parser(source.lines.addNewLine);
  const tokens = [];
  let count = 0;
  for (const lexeme of new Lexer().lex(text)) {
    count += 1;
    tokens.push(...parser.next(lexeme));
    // Besides the nested values, the stack holds the document and the current value.
    const tooDeep = parser.stack.length > limits.depthMax + 2;
    if (!tooDeep && count <= limits.tokensMax) continue;
    const bound = tooDeep ? `values are nested deeper than ${limits.depthMax} levels` : `more than ${limits.tokensMax} tokens`;
    findings.add("FLOW_TOO_LARGE", at(source, parser.offset), bound, tooDeep ? "flatten it" : "split the document");
    return undefined;
  }
  tokens.push(...parser.end());
  // A text can have 100,000 errors; a stack trace for each would take a minute.
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
    findings.add(
      "FLOW_SYNTAX",
      at(source, error.pos[0]),
      printable(error.message.split("\n")[0] ?? ""),
      "correct the YAML 1.2 or JSON syntax",
    );
  for (const warning of document.warnings.slice(0, syntaxFindingsMax))
    findings.add("FLOW_UNKNOWN_TAG", at(source, warning.pos[0]), printable(warning.message.split("\n")[0] ?? ""), "remove the tag");
  return document.errors.length === 0;
}

/** Other tools read a .json file as JSON, so YAML-only syntax is rejected in it. */
function isStrictJson(text: string, source: Source, findings: Findings): boolean {
  const problem = /\.json$/i.test(source.file) ? jsonProblem(text) : undefined;
  if (problem === undefined) return true;
  const message = `the file is named .json but is not valid JSON: ${printable(problem.message)}`;
  findings.add("FLOW_SYNTAX", at(source, problem.offset), message, "correct it, or rename it to .yaml");
  return false;
}

/** A NUL character means that the file is UTF-16 or binary. */
function hasNul(text: string, source: Source, findings: Findings): boolean {
  const offset = text.indexOf("\0");
  if (offset === -1) return false;
  findings.add("FLOW_SYNTAX", at(source, offset), "contains a NUL character: it is not UTF-8 text", "save it as UTF-8 text");
  return true;
}
