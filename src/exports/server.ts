/** The HTTP API of a graph runtime. Needs the package `hono`; `serve` also needs `@hono/node-server`. */
export { createApp } from "../server/app.js";
export { openApi } from "../server/openapi.js";
export type { AppOptions } from "../server/options.js";
export { type Served, type ServeOptions, serve } from "../server/serve.js";
