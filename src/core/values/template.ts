import { InvalidInputError } from "../errors/errors.js";
import { isPlainObject } from "./plain-object.js";

/** A piece of a template: text, or the path of a placeholder. */
export type TemplatePart = { readonly literal: string } | { readonly path: readonly string[] };

const placeholder = /\{\{\s*([^{}]*?)\s*\}\}/g;
const pathShape = /^[A-Za-z_$][\w$-]*(\.[\w$-]+)*$/;
const templateCharsMax = 2048;

export interface Template {
  /** Fills in the placeholders. Reads own members of the context only. Throws InvalidInputError if one is missing. */
  readonly fill: (context: Readonly<Record<string, unknown>>) => string;
  /** The paths of the placeholders, in order. */
  readonly paths: readonly (readonly string[])[];
  /** Whether the text outside the placeholders has a letter or digit, so that it can name the operation. */
  readonly named: boolean;
}

export function parseTemplate(text: string): Template {
  const parts = templateParts(text);
  return {
    fill: (context) => parts.map((part) => ("literal" in part ? part.literal : valueAt(context, part.path))).join(""),
    paths: parts.flatMap((part) => ("path" in part ? [part.path] : [])),
    named: parts.some((part) => "literal" in part && /[A-Za-z0-9]/.test(part.literal)),
  };
}

/** Compiles `{{payload.orderId}}-charge` into a function of the context. Warns if the template is placeholders only. */
export function compileTemplate(text: string): Template["fill"] {
  const template = parseTemplate(text);
  if (!template.named && template.paths.length > 0) warnOfGeneric(text);
  return template.fill;
}

/** Splits a template into literals and paths. Throws InvalidInputError for braces that do not form a {{path}}. */
export function templateParts(text: unknown, charsMax = templateCharsMax): readonly TemplatePart[] {
  if (typeof text !== "string" || text === "") throw new InvalidInputError("template", "must be a non-empty string");
  if (text.length > charsMax) throw new InvalidInputError("template", `is longer than ${charsMax} characters`);
  const parts: TemplatePart[] = [];
  let end = 0;
  for (const match of text.matchAll(placeholder)) {
    const path = match[1] ?? "";
    if (!pathShape.test(path))
      throw new InvalidInputError("template", `"{{${path}}}" is not a path such as {{payload.orderId}} (at character ${match.index})`);
    if (match.index > end) parts.push({ literal: text.slice(end, match.index) });
    parts.push({ path: path.split(".") });
    end = match.index + match[0].length;
  }
  if (end < text.length) parts.push({ literal: text.slice(end) });
  const broken = parts.find((part) => "literal" in part && /\{\{|\}\}/.test(part.literal));
  if (broken) throw new InvalidInputError("template", `"${text}" has braces that do not form a {{path}}`);
  return parts;
}

function valueAt(context: unknown, path: readonly string[]): string {
  let value = context;
  for (const [depth, name] of path.entries()) {
    const inside = Array.isArray(value) || isPlainObject(value) ? (value as object) : undefined;
    if (inside === undefined || !Object.hasOwn(inside, name))
      throw new InvalidInputError(path.slice(0, depth + 1).join("."), "is missing, but the key is made from it");
    value = (inside as Record<string, unknown>)[name];
  }
  if ((typeof value === "string" && value !== "") || typeof value === "bigint" || typeof value === "boolean") return String(value);
  if (typeof value === "number" && Number.isFinite(value)) return String(value);
  throw new InvalidInputError(path.join("."), `must be a non-empty string, a finite number or a boolean to be part of a key`);
}

const warned = new Set<string>();
const warnedMax = 1000;

/** A key that is only an entity's id collides as soon as a second operation uses the same entity's id as its key. */
function warnOfGeneric(text: string): void {
  if (warned.has(text) || warned.size >= warnedMax) return;
  warned.add(text);
  process.emitWarning(`[onceflow] the key template "${text}" is only an entity's id; add the name of the operation: "${text}-charge"`, {
    type: "OnceflowWarning",
    code: "ONCEFLOW_GENERIC_KEY",
  });
}
