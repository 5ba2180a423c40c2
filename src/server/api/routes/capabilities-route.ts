import { type Route, route } from "../route.js";

/** What this server can do, and what the caller may do. */
export const capabilitiesRoute: Route = route({
  id: "readCapabilities",
  method: "GET",
  path: "/capabilities",
  about: "Show what the store of this server supports, and what you may do",
  role: "view",
  fields: {},
  answer: "Capabilities",
  run: async ({ store, runtime, caller: { actor, roles, scopes }, policy: { readOnly } }) => ({
    store: store.name,
    capabilities: store.capabilities,
    flows: runtime !== undefined,
    readOnly,
    you: { actor, roles, scopes },
  }),
});
