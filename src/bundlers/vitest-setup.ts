import { configure } from "../ambient/ambient.js";
import { open } from "../stores/open.js";

/**
 * Loaded before each test file by the plugin of onceflow/workflow/vitest. Makes a store in memory the default store, unless
 * ONCEFLOW_URL is set. Tests can replace it with `configure`.
 */
if (!process.env["ONCEFLOW_URL"]) configure({ store: await open("memory:") });
