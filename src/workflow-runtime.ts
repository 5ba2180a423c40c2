export { callStep, hoistedStep, step, stepMethod, workflow, workflowMethod } from "./workflow/compiled.js";
export { now, random, uuid } from "./workflow/primitives.js";
export { dateNow, dateText, fetch, setImmediate, setInterval, setTimeout } from "./workflow/substitutes.js";
