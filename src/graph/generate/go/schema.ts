import type { JsonSchema } from "../../schema/compiler.js";

type Definitions = Readonly<Record<string, JsonSchema>>;
export type SchemaObject = Readonly<Record<string, unknown>>;

const prefix = "#/definitions/";

/** The schema as an object; true, false and anything else have no members. */
export const objectOf = (schema: unknown): SchemaObject =>
  typeof schema === "object" && schema !== null && !Array.isArray(schema) ? (schema as SchemaObject) : {};

/** The name of the definition that a schema refers to. */
export function refOf(schema: unknown): string | undefined {
  const { $ref } = objectOf(schema);
  return typeof $ref === "string" && $ref.startsWith(prefix) ? $ref.slice(prefix.length) : undefined;
}

/** Definitions that contain themselves, through any number of others: a Go struct can hold them only by a pointer. */
export function recursiveDefinitions(definitions: Definitions): ReadonlySet<string> {
  const direct = new Map(Object.entries(definitions).map(([name, schema]) => [name, refsIn(schema)]));
  const reaches = (from: string): boolean => {
    const seen = new Set<string>();
    const open = [...(direct.get(from) ?? [])];
    for (let name = open.pop(); name !== undefined; name = open.pop()) {
      if (name === from) return true;
      if (seen.has(name)) continue;
      seen.add(name);
      open.push(...(direct.get(name) ?? []));
    }
    return false;
  };
  return new Set(Object.keys(definitions).filter(reaches));
}

function refsIn(schema: unknown): readonly string[] {
  if (typeof schema !== "object" || schema === null) return [];
  const own = refOf(schema);
  return [...(own === undefined ? [] : [own]), ...Object.values(schema).flatMap(refsIn)];
}

/** Splits `null` from a schema that allows one other kind of value. Undefined: there is no single other kind. */
export function withoutNull(schema: SchemaObject): { readonly schema: unknown; readonly isNullable: boolean } | undefined {
  const { type, anyOf, oneOf } = schema;
  if (Array.isArray(type)) {
    const others = type.filter((one) => one !== "null");
    return others.length === 1 ? { schema: { ...schema, type: others[0] }, isNullable: others.length < type.length } : undefined;
  }
  const options = anyOf ?? oneOf;
  if (!Array.isArray(options)) return { schema, isNullable: false };
  const others = options.filter((one) => objectOf(one)["type"] !== "null");
  return others.length === 1 ? { schema: others[0], isNullable: others.length < options.length } : undefined;
}

/**
 * The members of an object schema, with those of its `allOf`. Undefined if the schema is not about objects with members alone. A
 * definition that contains itself through `allOf` has no members to list.
 */
export function membersOf(
  schema: unknown,
  definitions: Definitions,
  seen: ReadonlySet<string> = new Set(),
): { readonly properties: ReadonlyMap<string, unknown>; readonly required: ReadonlySet<string>; readonly extra?: unknown } | undefined {
  const ref = refOf(schema);
  if (ref !== undefined) return seen.has(ref) ? undefined : membersOf(definitions[ref], definitions, new Set([...seen, ref]));
  const { type, properties, required, additionalProperties, allOf, anyOf, oneOf, enum: values } = objectOf(schema);
  const isObject = type === "object" || (type === undefined && (properties !== undefined || required !== undefined || allOf !== undefined));
  if (!isObject || anyOf !== undefined || oneOf !== undefined || values !== undefined) return undefined;
  const found = new Map(Object.entries(objectOf(properties)));
  const needed = new Set(Array.isArray(required) ? (required as unknown[]).map(String) : []);
  let extra = additionalProperties;
  for (const part of Array.isArray(allOf) ? (allOf as unknown[]) : []) {
    const members = membersOf(part, definitions, seen);
    if (members === undefined) return undefined;
    for (const [name, member] of members.properties) if (!found.has(name)) found.set(name, member);
    for (const name of members.required) needed.add(name);
    extra ??= members.extra;
  }
  return { properties: found, required: needed, ...(extra === undefined ? {} : { extra }) };
}
