import { keyRoutes } from "./keys-routes.js";
import { ledgerRoutes } from "./ledger-routes.js";
import type { ApiPolicy } from "./options.js";
import type { Route } from "./route.js";

/** All routes. Validation, roles and the OpenAPI document come from these definitions. */
export const apiRoutes: readonly Route[] = [...keyRoutes, ...ledgerRoutes];

/** The routes of one API. */
export function routesOf(_policy: ApiPolicy): readonly Route[] {
  return apiRoutes;
}
