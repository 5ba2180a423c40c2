import { closest } from "../../core/errors/closest.js";
import { itemsOf, type Spot } from "../load/tree.js";

/** The kind of value of a keyword of JSON Schema draft-07. */
type Shape =
  | "schema"
  | "schemas"
  | "schemaMap"
  | "items"
  | "dependencies"
  | "count"
  | "number"
  | "bound"
  | "positive"
  | "pattern"
  | "texts"
  | "types"
  | "flag"
  | "list"
  | "text"
  | "any";

export const keywords: ReadonlyMap<string, Shape> = new Map<string, Shape>([
  ...(["additionalItems", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"] as const).map(
    (name) => [name, "schema"] as const,
  ),
  ...(["allOf", "anyOf", "oneOf"] as const).map((name) => [name, "schemas"] as const),
  ...(["properties", "patternProperties"] as const).map((name) => [name, "schemaMap"] as const),
  ["items", "items"],
  ["dependencies", "dependencies"],
  ...(["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"] as const).map(
    (name) => [name, "count"] as const,
  ),
  ...(["minimum", "maximum"] as const).map((name) => [name, "number"] as const),
  ...(["exclusiveMinimum", "exclusiveMaximum"] as const).map((name) => [name, "bound"] as const),
  ["multipleOf", "positive"],
  ["pattern", "pattern"],
  ["required", "texts"],
  ["type", "types"],
  ["uniqueItems", "flag"],
  ["enum", "list"],
  ["const", "any"],
  ["format", "text"],
  ["title", "text"],
  ["description", "text"],
]);

/** Keywords that describe and do not restrict, of any draft and of OpenAPI, and containers of schemas. */
const describing: readonly string[] = [
  ...["$schema", "$id", "id", "$ref", "$comment", "$defs", "definitions", "$anchor", "$vocabulary", "$dynamicAnchor", "$recursiveAnchor"],
  ...["default", "example", "examples", "deprecated", "readOnly", "writeOnly", "externalDocs", "xml", "discriminator", "nullable"],
  ...["contentEncoding", "contentMediaType", "contentSchema", "note", "name", "summary"],
];

export const isRestricting = (name: string): boolean => keywords.has(name) && name !== "title" && name !== "description";

/** A name that is nearly one of these is a typo, and the restriction is lost. Shorter keywords are near to many words. */
const restricting = [...keywords.keys()].filter((name) => name.length >= 4 && isRestricting(name));

/** The keyword that an unknown name in a schema is probably a misspelling of. */
export function misspeltKeyword(name: string): string | undefined {
  return keywords.has(name) || describing.includes(name) || name.startsWith("x-") ? undefined : closest(name, restricting);
}

const types = ["string", "number", "integer", "boolean", "object", "array", "null"];

/** What is wrong with the value of a keyword that contains no schemas; undefined if nothing is. */
export function wrongShape(shape: Shape, spot: Spot): string | undefined {
  const { tree } = spot;
  const value = tree.kind === "scalar" ? tree.value : undefined;
  const isType = (one: unknown) => typeof one === "string" && types.includes(one);
  const texts = itemsOf(spot).map((item) => (item.tree.kind === "scalar" ? item.tree.value : undefined));
  switch (shape) {
    case "count":
      return Number.isInteger(value) && Number(value) >= 0 ? undefined : "must be a non-negative integer";
    case "number":
      return typeof value === "number" ? undefined : "must be a number";
    case "bound":
      return typeof value === "number" || typeof value === "boolean" ? undefined : "must be a number";
    case "positive":
      return typeof value === "number" && value > 0 ? undefined : "must be a number greater than 0";
    case "flag":
      return typeof value === "boolean" ? undefined : "must be true or false";
    case "text":
      return typeof value === "string" ? undefined : "must be a string";
    case "list":
      return tree.kind === "list" ? undefined : "must be a list";
    case "texts":
      return tree.kind === "list" && texts.every((text) => typeof text === "string") ? undefined : "must be a list of names";
    case "types":
      return isType(value) || (tree.kind === "list" && texts.length > 0 && texts.every(isType))
        ? undefined
        : `must be one of ${types.join(", ")}`;
    case "pattern":
      return typeof value === "string" ? undefined : "must be a string";
    default:
      return undefined;
  }
}
