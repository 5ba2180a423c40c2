import { childOf, type Spot } from "../load/tree.js";

/** Schemas of OpenAPI 3.1 and newer use 2020-12; all others are read as draft-07. */
export type SchemaDraft = "draft-07" | "2020-12";

/** Keywords of 2019-09 and 2020-12 that draft-07 has under another name. */
const renamed: Readonly<Record<string, string>> = {
  prefixItems: "items",
  dependentRequired: "dependencies",
  dependentSchemas: "dependencies",
};

/** Keywords that restrict values and have no counterpart in draft-07. */
const untranslated = ["unevaluatedProperties", "unevaluatedItems", "minContains", "maxContains", "$dynamicRef", "$recursiveRef"];

/** The name of a keyword in draft-07. In 2020-12, `items` beside `prefixItems` is for the items after those. */
export function inDraft07(name: string, draft: SchemaDraft, schema: Spot): string {
  if (draft === "draft-07") return name;
  if (name === "items" && childOf(schema, "prefixItems") !== undefined) return "additionalItems";
  return Object.hasOwn(renamed, name) ? (renamed[name] as string) : name;
}

/** Whether a keyword would restrict values in a newer draft, but is not checked here. */
export function isIgnored(name: string, draft: SchemaDraft): boolean {
  return untranslated.includes(name) || (draft === "draft-07" && Object.hasOwn(renamed, name));
}

/** `dependentRequired` and `dependentSchemas` become one keyword, `allOf` contains also what stands beside a `$ref`. */
export function combined(before: unknown, value: unknown): unknown {
  if (before === undefined) return value;
  if (Array.isArray(before) && Array.isArray(value)) return [...(before as unknown[]), ...(value as unknown[])];
  const both = { ...(before as Record<string, unknown>) };
  for (const [name, one] of Object.entries(value as object)) {
    const other = both[name];
    both[name] = other === undefined ? one : { allOf: [asSchema(other), asSchema(one)] };
  }
  return both;
}

/** A dependency of draft-07 is a list of names or a schema. */
const asSchema = (dependency: unknown) => (Array.isArray(dependency) ? { required: dependency } : dependency);
