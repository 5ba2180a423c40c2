import { isPlainObject } from "./plain-object.js";

/**
 * Where in a value a part of it is: `.order.lines[0]`. `kept`: what is stored in the place of values that are not plain.
 * Empty when it is the value itself, or lies where nobody can look.
 */
export function pathTo(root: unknown, part: unknown, kept: ReadonlyMap<unknown, { readonly kept: unknown }>): string {
  const seen = new Set<unknown>();
  const left: [value: unknown, path: string][] = [[root, ""]];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const [value, path] = next;
    if (value === part) return path;
    if (typeof value !== "object" || value === null || seen.has(value)) continue;
    seen.add(value);
    for (const [step, inside] of partsOf(value, kept)) left.push([inside, path + step]);
  }
  return "";
}

function partsOf(value: object, kept: ReadonlyMap<unknown, { readonly kept: unknown }>): [step: string, inside: unknown][] {
  if (Array.isArray(value)) return Object.entries(value).map(([i, inside]) => [`[${i}]`, inside]);
  if (value instanceof Set) return [...value].map((inside) => ["", inside]);
  if (value instanceof Map)
    return [...value].flatMap(([key, inside]) => [
      ["", key],
      [`.get(${typeof key === "string" ? JSON.stringify(key) : "…"})`, inside],
    ]);
  if (!isPlainObject(value)) return kept.has(value) ? [["", kept.get(value)?.kept]] : [];
  return Object.entries(value).map(([name, inside]) => [
    /^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`,
    inside,
  ]);
}
