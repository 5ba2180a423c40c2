import { requireRuns } from "../../../core/store/store.js";
import { eventStream } from "../../event-stream.js";
import { type ApiCaller, listScope } from "../caller.js";
import type { ApiPolicy } from "../options.js";
import { type Route, route } from "../route.js";
import { valuesFor } from "../values.js";
import { listScopeField } from "./keys-routes.js";
import { type LiveEvent, LiveFeed } from "./live-feed.js";
import { rowFor } from "./runs-routes.js";
import { eventHeaders } from "./stream-route.js";

/** Live events of the store. */
export function liveRoute(policy: ApiPolicy): Route {
  const feed = new LiveFeed(policy);
  return route({
    id: "listen",
    method: "GET",
    path: "/live",
    about:
      "Follow the store (server-sent events): ready (from now on changes are reported), run (a run has changed), removed, action (an entry of the operator log), unreachable (the store does not answer), dropped (this client was too slow, and the stream ends). Reads the store in bounded steps, so events come with a delay",
    role: "view",
    problems: ["MISSING_CAPABILITY", "TOO_MANY_LISTENERS"],
    fields: { scope: listScopeField },
    answer: "events",
    run: async ({ store, caller, input, listeners, headOnly }) => {
      requireRuns(store);
      const scope = listScope(caller, input.scope);
      if (headOnly) return new Response(null, { headers: eventHeaders });
      const release = listeners.take();
      const stream = eventStream<{ readonly type: string }>({
        ...policy,
        whenFull: "end",
        listen: (send) =>
          feed.listen((event) => {
            const message = messageFor(caller, scope, event);
            if (message !== undefined) send(message);
          }),
        ended: release,
      });
      return new Response(stream, { headers: eventHeaders });
    },
  });
}

/** The event as this caller may see it; undefined: it belongs to another scope. */
function messageFor(caller: ApiCaller, scope: string | undefined, event: LiveEvent): { readonly type: string } | undefined {
  const isVisible = (of: string | undefined): boolean => scope === undefined || of === scope;
  switch (event.type) {
    case "run":
      if (!isVisible(event.run.scope)) return undefined;
      return { type: "run", ...{ run: rowFor(caller, event.run) } };
    case "removed":
      return isVisible(event.scope) ? event : undefined;
    case "action": {
      if (!isVisible(event.scope)) return undefined;
      const { no, id, at, actor, action, subject, reason, detail } = event.entry;
      const answer = valuesFor(caller, () => ({ answer: detail === null ? undefined : (JSON.parse(detail) as unknown) }));
      const entry = {
        no,
        actionId: id,
        at: new Date(at),
        actor,
        action,
        runId: subject,
        ...(reason === null ? {} : { reason }),
        ...answer,
      };
      return { type: "action", ...{ entry } };
    }
    case "ready":
    case "unreachable":
      return event;
  }
}
