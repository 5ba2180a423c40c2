import { isPlainObject } from "./plain-object.js";

/**
 * The path of `part` inside `root`, such as `.order.lines[0]`. `kept`: what is stored for values that are not plain objects.
 * Empty if `part` is `root`, or if it is inside an object that cannot be traversed.
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
