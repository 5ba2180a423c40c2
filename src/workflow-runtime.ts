export { serdeClass } from "./core/serializable.js";
export { callStep, hoistedStep, sharedName, step, stepMethod, workflow, workflowMethod } from "./workflow/compiled.js";
export { random } from "./workflow/primitives.js";
export { dateNow, dateText, fetch, held, newDate, released, setImmediate, setInterval, setTimeout, uuid } from "./workflow/substitutes.js";
