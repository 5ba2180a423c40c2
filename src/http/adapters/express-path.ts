import type { Request } from "express";
import type { IncomingRequest } from "../incoming-request.js";
import { folded, spelledAs } from "./route-path.js";

type Paths = Pick<IncomingRequest<Request>, "routePath" | "foldedPath">;

/**
 * The path as the matched route spells it, so that `/Orders/1` and `/orders/1` are one operation. For the mount path, and
 * before a route has matched, it is unknown which parts are parameters: there only `foldedPath` treats spellings as equal.
 */
export function expressPaths(request: Request, path: string, hasMatched: boolean): Paths {
  const settings = {
    ignoreCase: !request.app.enabled("case sensitive routing"),
    ignoreTrailingSlash: !request.app.enabled("strict routing"),
  };
  const anyRoute = { routePath: path, foldedPath: folded(path, settings) };
  const { baseUrl, route } = request;
  // Middleware may have rewritten the URL: then the route does not say how the path was spelled.
  if (!hasMatched || typeof route?.path !== "string" || !(path === baseUrl || path === baseUrl + request.path)) return anyRoute;
  const spelled = spelledAs(route.path, request.path);
  if (spelled === undefined) return anyRoute;
  const own = spelled === "/" && baseUrl !== "" ? "" : spelled;
  return { routePath: baseUrl + own, foldedPath: folded(baseUrl, settings) + own };
}

/** Whether the middleware is part of the matched route itself. `request.route` stays set after a route has passed the request on. */
export function isInRoute(request: Request, middleware: unknown): boolean {
  const { stack } = (request.route ?? {}) as { stack?: readonly { readonly handle: unknown }[] };
  return stack?.some(({ handle }) => handle === middleware) === true;
}
