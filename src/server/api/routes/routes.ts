import type { ApiPolicy } from "../options.js";
import type { Route } from "../route.js";
import { capabilitiesRoute } from "./capabilities-route.js";
import { deadLetterRoutes } from "./dead-letter-routes.js";
import { flowRoutes } from "./flow-routes.js";
import { keyRoutes } from "./keys-routes.js";
import { ledgerRoutes } from "./ledger-routes.js";
import { liveRoute } from "./live-route.js";
import { runActionRoutes } from "./run-actions.js";
import { runRoutes } from "./runs-routes.js";
import { streamRoute } from "./stream-route.js";
import { workerRoutes } from "./worker-routes.js";

/** All routes of an API. Validation, roles and the OpenAPI document come from these definitions. */
export function routesOf(policy: ApiPolicy): readonly Route[] {
  return [
    ...runRoutes,
    ...workerRoutes,
    streamRoute,
    ...runActionRoutes,
    ...keyRoutes,
    ...ledgerRoutes,
    ...deadLetterRoutes(policy),
    ...flowRoutes,
    liveRoute(policy),
    capabilitiesRoute,
  ];
}
