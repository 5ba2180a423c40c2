import { InvalidInputError } from "../../../core/errors/errors.js";
import { nearest } from "../../../core/errors/known-options.js";
import { isPlainObject } from "../../../core/values/plain-object.js";
import { type TemplatePart, templateParts } from "../../../core/values/template.js";
import { dataOf } from "../../node/input-data.js";
import type { NodeInput } from "../../node/node.js";
import { NodeError } from "../../node/node-error.js";
import { compileExpression } from "./expression.js";

/**
 * The values that placeholders of settings can use: `{{payload.orderId}}`, `{{context.executionId}}`, `{{secrets.token}}`. A placeholder may
 * also be an expression, `{{payload.email.lower()}}`, which sees the packet only.
 */
export type TemplateScope = Readonly<Record<string, unknown>>;

/** What a template may refer to. */
export interface TemplateNames {
  /** Names of the secrets that the node has. */
  readonly secrets?: readonly string[];
  /** The template is filled after the response has arrived: `{{response.body.id}}`. */
  readonly response?: boolean;
}

/** How a value becomes part of a text. `index`: the number of the placeholder's part in the template. */
type Write = (value: string, index: number) => string;

const contextNames = ["flowId", "nodeId", "executionId", "packetId", "idempotencyKey"] as const;
const charsMax = 100_000;
const depthMax = 20;

/** The values of one delivery. */
export function scopeOf(input: NodeInput, secrets: Readonly<Record<string, string>> = {}): TemplateScope {
  const { flowId, nodeId, executionId, packetId, idempotencyKey } = input.context;
  return { payload: dataOf(input), secrets, context: { flowId, nodeId, executionId, packetId, idempotencyKey } };
}

/**
 * Compiles a text with placeholders. A missing value, an object or a list throws NodeError VALIDATION: a packet never becomes the
 * text "undefined". `write` encodes each value for its place in the text.
 */
export function textTemplate(
  field: string,
  text: string,
  names: TemplateNames,
  write: Write = (value) => value,
): (scope: TemplateScope) => string {
  const parts = partsOf(field, text, names);
  return (scope) =>
    parts.map((part, index) => ("literal" in part ? part.literal : write(scalar(field, part.text, part.value(scope)), index))).join("");
}

/**
 * Compiles a tree of objects, lists and texts with placeholders. A text that is one placeholder keeps the type of the value:
 * `amount: "{{payload.amount}}"` is a number if the packet has one.
 */
export function valueTemplate(field: string, value: unknown, names: TemplateNames, depth = 0): (scope: TemplateScope) => unknown {
  if (depth > depthMax) throw new InvalidInputError(field, `is nested deeper than ${depthMax} levels`);
  if (typeof value === "string") {
    const [only, second] = partsOf(field, value, names);
    if (only !== undefined && "value" in only && second === undefined) return only.value;
    return textTemplate(field, value, names);
  }
  if (Array.isArray(value)) {
    const items = value.map((item, i) => valueTemplate(`${field}[${i}]`, item, names, depth + 1));
    return (scope) => items.map((item) => item(scope));
  }
  if (!isPlainObject(value)) return () => value;
  const members = Object.entries(value).map(
    ([name, member]) => [name, valueTemplate(`${field}.${name}`, member, names, depth + 1)] as const,
  );
  return (scope) => Object.fromEntries(members.map(([name, member]) => [name, member(scope)]));
}

/** A piece of a template: text, or a placeholder, which is a path or an expression. */
type Part = { readonly literal: string } | { readonly text: string; readonly value: (scope: TemplateScope) => unknown };

function partsOf(field: string, text: string, names: TemplateNames): readonly Part[] {
  if (text === "") return [];
  const expressions: { readonly text: string; readonly evaluate: (payload: unknown) => unknown }[] = [];
  const paths = text.replace(placeholder, (whole, inner: string) => {
    if (inner === "" || plainPath.test(inner)) return whole;
    expressions.push({ text: inner, evaluate: compileExpression(field, inner, "{{payload.email.lower()}}") });
    return `{{${computed}.${expressions.length - 1}}}`;
  });
  let parts: readonly TemplatePart[];
  try {
    parts = templateParts(paths, charsMax);
  } catch (error) {
    throw new InvalidInputError(field, (error as Error).message.replace(/^template: /, ""));
  }
  return parts.map((part) => {
    if ("literal" in part) return part;
    const { path } = part;
    const expression = path[0] === computed ? expressions[Number(path[1])] : undefined;
    if (expression !== undefined) return { text: expression.text, value: ({ payload }) => expression.evaluate(payload) };
    checkPath(field, path, names);
    return { text: path.join("."), value: (scope) => valueAt(field, scope, path) };
  });
}

const placeholder = /\{\{\s*([^{}]*?)\s*\}\}/g;
const plainPath = /^[A-Za-z_$][\w$-]*(\.[\w$-]+)*$/;
/** Stands for an expression while the template is parsed. A path of the document does not begin with a dollar sign. */
const computed = "$computed";

function checkPath(field: string, path: readonly string[], { secrets = [], response = false }: TemplateNames): void {
  const [root = "", name, more] = path;
  const roots = ["payload", "context", "secrets", ...(response ? ["response"] : [])];
  if (!roots.includes(root)) throw unknownName(field, path, root, roots);
  const known = root === "secrets" ? secrets : root === "context" ? contextNames : undefined;
  if (known === undefined) return;
  if (name === undefined || more !== undefined || !known.includes(name)) {
    const hint = root === "secrets" ? "; give secrets to the node in code: { secrets: { name: value } }" : "";
    throw unknownName(field, path, name ?? "", known, hint);
  }
}

function unknownName(field: string, path: readonly string[], name: string, known: readonly string[], hint = ""): InvalidInputError {
  const near = nearest(name, known);
  const advice = near === undefined ? `known names: ${known.join(", ") || "none"}` : `did you mean "${near}"?`;
  return new InvalidInputError(field, `unknown placeholder {{${path.join(".")}}}; ${advice}${hint}`);
}

/** Reads own members only: inherited ones are not data. */
function valueAt(field: string, scope: TemplateScope, path: readonly string[]): unknown {
  let value: unknown = scope;
  for (const [depth, name] of path.entries()) {
    const inside = Array.isArray(value) || isPlainObject(value) ? (value as Readonly<Record<string, unknown>>) : undefined;
    value = inside !== undefined && Object.hasOwn(inside, name) ? inside[name] : undefined;
    if (value === undefined) throw new NodeError("VALIDATION", `${field}: ${path.slice(0, depth + 1).join(".")} is missing`);
  }
  return value;
}

function scalar(field: string, text: string, value: unknown): string {
  if (typeof value === "string" || typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (typeof value === "number" && Number.isFinite(value)) return String(value);
  throw new NodeError("VALIDATION", `${field}: ${text} must be a string, a finite number or a boolean`);
}
