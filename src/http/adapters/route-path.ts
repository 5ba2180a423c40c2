/** How a router compares paths. */
export interface RoutingSettings {
  readonly ignoreCase: boolean;
  readonly ignoreTrailingSlash: boolean;
  readonly ignoreDuplicateSlashes?: boolean;
}

/** Returns the same text for all paths that a router with these settings treats as equal. */
export function folded(path: string, { ignoreCase, ignoreTrailingSlash, ignoreDuplicateSlashes = false }: RoutingSettings): string {
  let text = ignoreDuplicateSlashes ? path.replace(/\/{2,}/g, "/") : path;
  if (ignoreTrailingSlash && text.length > 1 && text.endsWith("/")) text = text.slice(0, -1);
  return ignoreCase ? text.toLowerCase() : text;
}

const fixed = /^[\w.~%&',;=@$-]*$/;
const parameter = /^:\w+$/;

/**
 * The path in the spelling of the route that it matched: fixed parts as the route has them, parameters as they were sent.
 * Undefined for a route that is more than fixed parts and whole parameters: then it is not known which part is which.
 */
export function spelledAs(route: string, path: string): string | undefined {
  const [parts, sent] = [partsOf(route), partsOf(path)];
  if (parts.length !== sent.length) return undefined;
  const spelled: string[] = [];
  for (const [i, part] of parts.entries()) {
    const value = sent[i] as string;
    if (parameter.test(part)) spelled.push(value);
    else if (fixed.test(part) && part.toLowerCase() === value.toLowerCase()) spelled.push(part);
    else return undefined;
  }
  return `/${spelled.join("/")}${route.length > 1 && route.endsWith("/") ? "/" : ""}`;
}

function partsOf(path: string): string[] {
  return path.replace(/^\//, "").replace(/\/$/, "").split("/");
}
