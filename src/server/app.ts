import type { Hono } from "hono";
import type { Runtime } from "../exports/graph.js";
import { addDeadLetterRoutes } from "./dead-letter-routes.js";
import { addEventRoute } from "./event-route.js";
import { addExecutionRoutes } from "./execution-routes.js";
import { addFlowRoutes } from "./flow-routes.js";
import { headers, hostGuard, tokenGuard } from "./guard.js";
import { loadHono } from "./load-hono.js";
import { type AppOptions, checkAppOptions } from "./options.js";
import { knownProblem, problemResponse } from "./problem.js";
import { addHealthRoute, addStatusRoutes } from "./status-routes.js";
import { addTriggerRoute } from "./trigger-route.js";
import { addWebhookRoute } from "./webhooks/route.js";
import { webhooksOf } from "./webhooks/webhooks.js";

/**
 * Creates the HTTP API of a runtime as a Hono app, to mount in an app of yours. `serve` also starts a server for it. Throws
 * InvalidInputError for wrong options, and ConfigurationError: `MISSING_PACKAGE` (`hono` is not installed), `WEBHOOK_SECRET` (the secret
 * of a webhook is not set or not usable), `WEBHOOK_PATH` (two webhooks have the same path).
 *
 * @example
 * const app = createApp(runtime, { token: process.env["ONCEFLOW_TOKEN"] });
 */
export function createApp(runtime: Runtime, options: AppOptions = {}): Hono {
  const policy = checkAppOptions(options);
  const { Hono } = loadHono();
  const webhooks = webhooksOf(runtime.plans, policy.env);
  const app = new Hono();
  app.use(headers);
  // Before the guards: a provider has no token, and its requests name a public host. Its signature is checked instead.
  addWebhookRoute(app, runtime, webhooks, policy);
  app.use(hostGuard(policy.token));
  addHealthRoute(app, runtime);
  app.use(tokenGuard(policy.token));
  addTriggerRoute(app, runtime, policy.bodyBytesMax);
  addFlowRoutes(app, runtime);
  addExecutionRoutes(app, runtime, policy);
  addDeadLetterRoutes(app, runtime);
  addEventRoute(app, runtime, policy);
  addStatusRoutes(app, runtime);
  refuseOtherMethods(app);
  app.notFound(() => problemResponse("route-unknown"));
  app.onError((error) => {
    const known = knownProblem(error);
    if (known === undefined) policy.onError(error);
    return known ?? problemResponse("internal");
  });
  return app;
}

/** Answers 405 with an Allow header if the path exists but does not support the method. */
function refuseOtherMethods(app: Hono): void {
  const taken = new Map<string, string[]>();
  for (const { path, method } of app.routes) if (method !== "ALL") taken.set(path, [...(taken.get(path) ?? []), method]);
  for (const [path, methods] of taken) {
    const allow = methods.includes("GET") ? [...methods, "HEAD"] : methods;
    app.all(path, () => problemResponse("method-refused", "", {}, [["allow", allow.join(", ")]]));
  }
}
