import type { JsonSchema } from "../../schema/compiler.js";
import type { Names } from "../names.js";
import { pascalCase } from "../type-text.js";
import { comment, isPlainField, text } from "./syntax.js";

type Schema = Readonly<Record<string, unknown>>;

const simple: Readonly<Record<string, string>> = {
  ...{ string: "str", number: "float", integer: "int", boolean: "bool", null: "None" },
};
const anyValue = "typing.Any";
export const anyObject = "typing.Mapping[str, typing.Any]";

/**
 * Converts JSON Schemas to Python types, and collects the definitions that they need. An object with members becomes a TypedDict: packets
 * are dicts, so a TypedDict types them without a conversion that could lose members or change numbers. If a type cannot express a
 * schema, it is wider, never narrower. Names of other types are quoted, because a type may refer to a later one, or to itself.
 */
export class PythonTypes {
  readonly #definitions: Readonly<Record<string, JsonSchema>>;
  readonly #names: Names;
  readonly #nameOfDefinition = new Map<string, string>();
  readonly #texts: string[] = [];

  constructor(definitions: Readonly<Record<string, JsonSchema>>, names: Names) {
    this.#definitions = definitions;
    this.#names = names;
  }

  /** The definitions of all types that were used so far, and of those that they use. */
  definitions(): string {
    // The map grows during this loop: the type of one packet may refer to other packets.
    for (const [definition, name] of this.#nameOfDefinition) this.#define(name, this.#definitions[definition]);
    return this.#texts.join("\n\n");
  }

  /** The type of a value. `hint` names an object that the document gives no name. */
  of(schema: unknown, hint: string): string {
    if (schema === false) return "typing.NoReturn";
    if (typeof schema !== "object" || schema === null) return anyValue;
    const { $ref, enum: values, const: constant, type, anyOf, oneOf, allOf } = schema as Schema;
    if (typeof $ref === "string") return text(this.#named($ref.slice("#/definitions/".length)));
    if ("const" in schema) return literals([constant]);
    if (Array.isArray(values)) return literals(values);
    const options = anyOf ?? oneOf;
    if (Array.isArray(options)) return union(options.map((one) => this.of(one, hint)));
    if (Array.isArray(allOf)) return this.#merged(schema as Schema, hint);
    if (Array.isArray(type)) return union(type.map((one: unknown) => this.of({ ...schema, type: one }, hint)));
    if (type === "array") return this.#list(schema as Schema, hint);
    if (type === "object" || "properties" in schema) return this.#object(schema as Schema, hint);
    return simple[String(type)] ?? anyValue;
  }

  #named(definition: string): string {
    const wanted = pascalCase(definition);
    const name = this.#nameOfDefinition.get(definition) ?? this.#names.take(this.#names.has(wanted) ? `${wanted}Packet` : wanted);
    this.#nameOfDefinition.set(definition, name);
    return name;
  }

  #define(name: string, schema: JsonSchema | undefined): void {
    const about = typeof schema === "object" && typeof schema["description"] === "string" ? schema["description"] : undefined;
    const members = typeof schema === "object" ? this.#members(schema) : undefined;
    // Union makes an alias of a text that names a type; without it, it would be a variable with a text.
    const definition = members === undefined ? `${name} = typing.Union[${this.of(schema, name)}]\n` : this.#typedDict(name, members);
    this.#texts.push(`${comment(about)}${definition}`);
  }

  #list(schema: Schema, hint: string): string {
    const { items } = schema;
    return `typing.List[${items === undefined || Array.isArray(items) ? anyValue : this.of(items, `${hint}Item`)}]`;
  }

  #object(schema: Schema, hint: string): string {
    const members = this.#members(schema);
    if (members === undefined) {
      const { additionalProperties } = schema;
      return typeof additionalProperties === "object"
        ? `typing.Dict[str, ${this.of(additionalProperties, `${hint}Value`)}]`
        : "typing.Dict[str, typing.Any]";
    }
    const name = this.#names.take(hint);
    this.#texts.push(this.#typedDict(name, members));
    return text(name);
  }

  /** All parts of an `allOf` as one object; any value, if a part is no object with members. */
  #merged(schema: Schema, hint: string): string {
    const members = this.#members(schema);
    return members === undefined ? anyValue : this.#object({ type: "object", ...members }, hint);
  }

  /** The members of an object, those of `allOf` included. Undefined: the schema names none. */
  #members(schema: Schema, depth = 0): { properties: Record<string, unknown>; required: unknown[] } | undefined {
    const { $ref, properties, required, allOf, anyOf, oneOf, type } = schema;
    if (depth > 20 || "enum" in schema || "const" in schema || anyOf !== undefined || oneOf !== undefined) return undefined;
    if (typeof $ref === "string" && depth > 0) {
      const definition = this.#definitions[$ref.slice("#/definitions/".length)];
      return typeof definition === "object" ? this.#members(definition, depth + 1) : undefined;
    }
    if ($ref !== undefined || Array.isArray(type) || (type !== undefined && type !== "object")) return undefined;
    const merged = { properties: emptyObject(), required: Array.isArray(required) ? [...(required as unknown[])] : [] };
    if (typeof properties === "object" && properties !== null) Object.assign(merged.properties, properties);
    for (const part of Array.isArray(allOf) ? (allOf as unknown[]) : []) {
      const found = typeof part === "object" && part !== null ? this.#members(part as Schema, depth + 1) : undefined;
      if (found === undefined) return undefined;
      for (const [name, member] of Object.entries(found.properties))
        merged.properties[name] = Object.hasOwn(merged.properties, name) ? true : member;
      merged.required.push(...found.required);
    }
    return Object.keys(merged.properties).length === 0 ? undefined : merged;
  }

  #typedDict(name: string, { properties, required }: { properties: Record<string, unknown>; required: unknown[] }): string {
    const fields = Object.entries(properties).map(([field, schema]) => ({
      ...{ field, isRequired: required.includes(field), type: this.of(schema, `${name}${pascalCase(field)}`) },
    }));
    const isClass = fields.every(({ field }) => isPlainField(field));
    // Two parts, because NotRequired is not in the standard library before Python 3.11.
    const parts = [true, false].map((isRequired) => fields.filter((field) => field.isRequired === isRequired));
    const [must = [], may = []] = parts;
    const one = (own: string, base: string, list: typeof fields, total: string) =>
      isClass
        ? `class ${own}(${base}${total}):\n${list.map(({ field, type }) => `    ${field}: ${type}\n`).join("")}`
        : `${own} = typing.TypedDict(\n    ${text(own)},\n    {\n${list.map(({ field, type }) => `        ${text(field)}: ${type},\n`).join("")}    }${total},\n)\n`;
    if (may.length === 0) return one(name, "typing.TypedDict", must, "");
    if (must.length === 0) return one(name, "typing.TypedDict", may, ", total=False");
    const required_ = one(`_${name}Required`, "typing.TypedDict", must, "");
    if (isClass) return `${required_}\n\n${one(name, `_${name}Required`, may, ", total=False")}`;
    const optional = one(`_${name}Optional`, "typing.TypedDict", may, ", total=False");
    return `${required_}\n\n${optional}\n\nclass ${name}(_${name}Required, _${name}Optional):\n    pass\n`;
  }
}

/** A member may be named `__proto__`. */
function emptyObject(): Record<string, unknown> {
  return Object.create(null) as Record<string, unknown>;
}

function union(types: readonly string[]): string {
  const different = [...new Set(types)];
  if (different.length === 0) return "typing.NoReturn";
  return different.length === 1 ? String(different[0]) : `typing.Union[${different.join(", ")}]`;
}

/** Python has no literal types of floats, lists and objects. */
function literals(values: readonly unknown[]): string {
  const literal = values.filter((value) => isLiteral(value)).map(literalText);
  const other = values.filter((value) => !isLiteral(value)).map((value) => (typeof value === "number" ? "float" : anyValue));
  return union([...(literal.length === 0 ? [] : [`typing.Literal[${[...new Set(literal)].join(", ")}]`]), ...other]);
}

const isLiteral = (value: unknown): boolean =>
  value === null || ["string", "boolean"].includes(typeof value) || Number.isSafeInteger(value);

function literalText(value: unknown): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  return typeof value === "string" ? text(value) : String(value);
}
