export { serdeClass } from "../../core/values/serializable.js";
export { callStep, hoistedStep, sharedName, step, stepMethod, workflow, workflowMethod } from "../../workflow/define/compiled.js";
export { random } from "../../workflow/define/primitives.js";
export {
  dateNow,
  dateText,
  fetch,
  held,
  newDate,
  released,
  setImmediate,
  setInterval,
  setTimeout,
  uuid,
} from "../../workflow/define/substitutes.js";
