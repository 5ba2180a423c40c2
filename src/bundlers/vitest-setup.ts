import { configure } from "../ambient/ambient.js";
import { open } from "../stores/open.js";
import { retryAtOnce } from "../workflow/define/default-backoff.js";

/**
 * Loaded before each test file by the plugin of onceflow/workflow/vitest. Makes a store in memory the default store, unless
 * ONCEFLOW_URL is set; tests can replace it with `configure`. Steps that set no backoff are retried at once.
 */
retryAtOnce();
if (!process.env["ONCEFLOW_URL"]) configure({ store: await open("memory:") });
