import { configure } from "../ambient/ambient.js";
import { open } from "../stores/open.js";

/**
 * Loaded before each test file by the plugin of onceflow/workflow/vitest: code that names no store uses one in memory,
 * unless ONCEFLOW_URL names another. Tests that call `configure` themselves replace it.
 */
if (!process.env["ONCEFLOW_URL"]) configure({ store: await open("memory:") });
