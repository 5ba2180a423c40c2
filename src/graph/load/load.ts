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

/** Text → positioned tree, or findings. JSON is read as the YAML 1.2 that it is, so that both have positions. */
export function loadTree({ text: written, file }: Text, limits: Limits, findings: Findings): Tree | undefined {
  const bytes = Buffer.byteLength(written);
  if (bytes > limits.bytesMax) {
    findings.add("FLOW_TOO_LARGE", wholeFile(file), `${bytes} bytes; ${limits.bytesMax} are allowed`, "split the document");
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
  return new TreeReader(source, limits, findings).read(document.contents);
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
    findings.add("FLOW_SYNTAX", at(source, error.pos[0]), printable(error.message.split("\n")[0] ?? ""), "write it as YAML 1.2 or JSON");
  for (const warning of document.warnings.slice(0, syntaxFindingsMax))
    findings.add("FLOW_UNKNOWN_TAG", at(source, warning.pos[0]), printable(warning.message.split("\n")[0] ?? ""), "remove the tag");
  return document.errors.length === 0;
}

/** Other tools will read a .json file as JSON: what only YAML allows is refused in it. */
function isStrictJson(text: string, source: Source, findings: Findings): boolean {
  const problem = /\.json$/i.test(source.file) ? jsonProblem(text) : undefined;
  if (problem === undefined) return true;
  const message = `not JSON, though the file's name says so: ${printable(problem.message)}`;
  findings.add("FLOW_SYNTAX", at(source, problem.offset), message, "mend it, or name it .yaml");
  return false;
}

/** No text has these: it is in UTF-16, or no text at all. */
function hasNul(text: string, source: Source, findings: Findings): boolean {
  const offset = text.indexOf("\0");
  if (offset === -1) return false;
  findings.add("FLOW_SYNTAX", at(source, offset), "a NUL character, which no text has", "save it as text in UTF-8");
  return true;
}
