/** HTTP APIs: of a store, and of a graph runtime. Needs the package `hono`; `serve` also needs `@hono/node-server`. */
export type { ApiCaller, ApiRole, Authorize } from "../server/api/caller.js";
export { type ApiHandler, createApi } from "../server/api/create-api.js";
export type { ApiOptions } from "../server/api/options.js";
export { createApp } from "../server/app.js";
export { openApi } from "../server/openapi.js";
export type { AppOptions } from "../server/options.js";
export { type Served, type ServeOptions, type ServeStoreOptions, serve } from "../server/serve.js";
