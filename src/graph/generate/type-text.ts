import type { JsonSchema } from "../schema/compiler.js";

/** `order_placed` → `OrderPlaced` */
export function pascalCase(name: string): string {
  const words = name.split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
  const joined = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
  return /^[A-Za-z]/.test(joined) ? joined : `Packet${joined}`;
}

export const camelCase = (name: string): string => {
  const pascal = pascalCase(name);
  return pascal.charAt(0).toLowerCase() + pascal.slice(1);
};

/** Writes `__proto__` in brackets: there it is an ordinary name, otherwise it would set the prototype. */
export const propertyName = (name: string): string =>
  name === "__proto__" ? '["__proto__"]' : /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);

/** Does not use Record or Readonly, because a packet of the document may have such a name. */
export const anyObject = "{ readonly [name: string]: unknown }";

/** A doc comment; escapes the end of a comment in the text. */
export function commentText(text: string | undefined, indent = ""): string {
  if (text === undefined || text.trim() === "") return "";
  const lines = text.trim().replaceAll("*/", "*\\/").split(/\r?\n/);
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}`.trimEnd()).join("\n")}\n${indent} */\n`;
}

const simple: Readonly<Record<string, string>> = {
  string: "string",
  number: "number",
  integer: "number",
  boolean: "boolean",
  null: "null",
};

/** Converts a JSON Schema to a TypeScript type. If a type cannot express the schema, it is wider, never narrower. */
export function typeText(schema: unknown, nameOf: (definition: string) => string): string {
  const text = (one: unknown) => typeText(one, nameOf);
  if (schema === false) return "never";
  if (typeof schema !== "object" || schema === null) return "unknown";
  const { $ref, enum: values, const: constant, type, anyOf, oneOf, allOf } = schema as Record<string, unknown>;
  if (typeof $ref === "string") return nameOf($ref.slice("#/definitions/".length));
  if ("const" in schema) return literal(constant);
  if (Array.isArray(values)) return union(values.map(literal));
  const options = anyOf ?? oneOf;
  if (Array.isArray(options)) return union(options.map(text));
  if (Array.isArray(allOf)) return allOf.map((one) => `(${text(one)})`).join(" & ");
  if (Array.isArray(type)) return union(type.map((one: unknown) => text({ ...schema, type: one })));
  if (type === "array") return arrayText(schema, text);
  if (type === "object" || "properties" in schema) return objectText(schema as Record<string, unknown>, text);
  return simple[String(type)] ?? "unknown";
}

const union = (types: readonly string[]) => (types.length === 0 ? "never" : [...new Set(types)].join(" | "));
const literal = (value: unknown) => (typeof value === "object" && value !== null ? "unknown" : JSON.stringify(value));

function arrayText(schema: object, text: (one: unknown) => string): string {
  const items = (schema as Record<string, unknown>)["items"];
  if (Array.isArray(items)) return `readonly [${items.map((item) => `(${text(item)})?`).join(", ")}, ...unknown[]]`;
  return `readonly (${items === undefined ? "unknown" : text(items)})[]`;
}

function objectText(schema: Record<string, unknown>, text: (one: unknown) => string): string {
  const properties = (schema["properties"] ?? {}) as Readonly<Record<string, JsonSchema>>;
  const required = Array.isArray(schema["required"]) ? (schema["required"] as unknown[]) : [];
  const additional = schema["additionalProperties"];
  const names = Object.keys(properties);
  if (names.length === 0) return typeof additional === "object" ? `{ readonly [name: string]: ${text(additional)} }` : anyObject;
  const fields = names.map((name) => `readonly ${propertyName(name)}${required.includes(name) ? "" : "?"}: ${text(properties[name])}`);
  return `{ ${fields.join("; ")} }`;
}
