/** The HTTP API of a runtime of flow graphs. Needs `hono`, and `serve` also `@hono/node-server`. */
export { createApp } from "../server/app.js";
export { openApi } from "../server/openapi.js";
export type { AppOptions } from "../server/options.js";
export { type Served, type ServeOptions, serve } from "../server/serve.js";
