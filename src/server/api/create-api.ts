import type { Context, Hono } from "hono";
import { headers, originGuard } from "../guard.js";
import { loadHono } from "../load-hono.js";
import { callerOf } from "./authorize.js";
import { hasRole } from "./caller.js";
import { bodyInput, queryInput } from "./input.js";
import { Listeners } from "./listeners.js";
import { apiDocument } from "./openapi.js";
import { type ApiOptions, type ApiPolicy, checkApiOptions } from "./options.js";
import { ApiProblem, knownProblem, problemResponse } from "./problems.js";
import type { Route } from "./route.js";
import { routesOf } from "./routes/routes.js";

/** A Fetch handler, to mount in an app of yours. */
export type ApiHandler = (request: Request) => Promise<Response>;

/**
 * Creates the HTTP API over a store: keys, runs, hooks, dead letters, flows, the operator log and live events. `authorize` says who sends a request and what
 * the sender may do. Throws InvalidInputError for wrong options, also without `authorize`, and ConfigurationError `MISSING_PACKAGE` (`hono` is not installed).
 *
 * @example
 * const api = createApi({ store, authorize: async (request) => await sessionOf(request) });
 * app.mount("/onceflow", api);
 */
export function createApi(options: ApiOptions): ApiHandler {
  const policy = checkApiOptions(options);
  const { Hono } = loadHono();
  const app = new Hono();
  const listeners = new Listeners(policy.listenersMax, policy.signal);
  const routes = routesOf(policy);
  app.use(headers);
  app.use(originGuard(() => problemResponse("ORIGIN_REFUSED")));
  for (const route of routes) addRoute(app, route, policy, listeners);
  app.get(`${policy.path}/openapi.json`, async (c) => {
    await callerOf(c.req.raw, policy);
    return c.json(apiDocument(routes, policy.path));
  });
  refuseOtherMethods(app);
  app.notFound(() => problemResponse("ROUTE_NOT_FOUND"));
  app.onError((error) => {
    const known = knownProblem(error);
    if (known === undefined) policy.onError(error);
    return known ?? problemResponse("INTERNAL");
  });
  return async (request) => await app.fetch(request);
}

function addRoute(app: Hono, route: Route, policy: ApiPolicy, listeners: Listeners): void {
  const { store, runtime } = policy;
  app.on(route.method, [`${policy.path}${route.path}`], async (c: Context) => {
    const request = c.req.raw;
    const caller = await callerOf(request, policy);
    if (!hasRole(caller, route.role)) throw new ApiProblem("ROLE_MISSING", `this needs the role ${route.role}`);
    if (route.needsValues && !hasRole(caller, "values")) throw new ApiProblem("ROLE_MISSING", "this needs the role values");
    if (policy.readOnly && route.method === "POST") throw new ApiProblem("READ_ONLY");
    const input =
      route.method === "GET" ? queryInput(route.id, request, route.fields) : await bodyInput(route.id, request, route.fields, policy);
    const answer = await route.run({
      store,
      runtime,
      caller,
      input,
      policy,
      listeners,
      signal: request.signal,
      headOnly: request.method === "HEAD",
    });
    return answer instanceof Response ? answer : c.json(answer);
  });
}

/** Answers 405 with an Allow header if the path exists but does not support the method. */
function refuseOtherMethods(app: Hono): void {
  const taken = new Map<string, string[]>();
  for (const { path, method } of app.routes) if (method !== "ALL") taken.set(path, [...(taken.get(path) ?? []), method]);
  for (const [path, methods] of taken) {
    const allow = methods.includes("GET") ? [...methods, "HEAD"] : methods;
    app.all(path, () => problemResponse("METHOD_NOT_ALLOWED", "", {}, [["allow", allow.join(", ")]]));
  }
}
