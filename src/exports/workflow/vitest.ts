export { type WorkflowTestOptions, workflow } from "../../bundlers/vitest.js";
export { type WaitOptions, waitForHook, waitForSleep } from "../../testing/wait-for.js";
