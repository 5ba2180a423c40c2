export { type Finding, TransformError } from "../transform/errors.js";
export { type Transformed, type TransformOptions, transform } from "../transform/transform.js";
