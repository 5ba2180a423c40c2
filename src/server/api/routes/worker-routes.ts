import { requireRuns } from "../../../core/store/store.js";
import { listWorkers } from "../../../workflow/client/list-workers.js";
import { runsWithoutWorker } from "../../../workflow/client/runs-without-worker.js";
import { requireAllScopes } from "../caller.js";
import { optional, wholeNumber } from "../fields.js";
import { type Route, route } from "../route.js";
import { cursorField, limitField } from "./keys-routes.js";

/** Workers belong to no scope. */
export const workerRoutes: readonly Route[] = [
  route({
    id: "listWorkers",
    method: "GET",
    path: "/workers",
    about: "List the workers of the store, and the runs that they have. Only for callers with all scopes",
    role: "view",
    problems: ["MISSING_CAPABILITY", "SCOPE_REFUSED"],
    fields: { limit: limitField, runsMax: optional(wholeNumber("Maximum number of runs of each worker. Default 100", 0, 1000)) },
    answer: "WorkerList",
    run: async ({ store, caller, input }) => {
      requireAllScopes(caller);
      requireRuns(store);
      return { items: await listWorkers({ ...input, store }) };
    },
  }),
  route({
    id: "listRunsWithoutWorker",
    method: "GET",
    path: "/runs/without-worker",
    about: "List open runs whose workflow no live worker has. Only for callers with all scopes",
    role: "view",
    problems: ["MISSING_CAPABILITY", "SCOPE_REFUSED"],
    fields: { limit: limitField, cursor: cursorField },
    answer: "RunsWithoutWorker",
    run: async ({ store, caller, input }) => {
      requireAllScopes(caller);
      requireRuns(store);
      return await runsWithoutWorker({ ...input, store });
    },
  }),
];
