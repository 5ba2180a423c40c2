import { InvalidInputError } from "../../../core/errors/errors.js";
import { knownOptions } from "../../../core/errors/known-options.js";
import { isPlainObject } from "../../../core/values/plain-object.js";
import { storable } from "../../../core/values/storable-text.js";

const charsMax = 4096;

/** An error that a client reports: { name, message, code }, or its message only. */
export function givenError(field: string, given: unknown): Error {
  if (typeof given === "string") return new Error(textOf(field, given));
  if (!isPlainObject(given)) throw new InvalidInputError(field, "must be { name, message, code }");
  knownOptions(field, given as object, { name: true, message: true, code: true });
  const { name = "Error", message, code } = given as Readonly<Record<string, unknown>>;
  const error = new Error(textOf(`${field}.message`, message));
  Object.defineProperty(error, "name", { value: textOf(`${field}.name`, name), configurable: true });
  return code === undefined ? error : Object.assign(error, { code: textOf(`${field}.code`, code) });
}

function textOf(field: string, value: unknown): string {
  if (typeof value !== "string" || value.length > charsMax)
    throw new InvalidInputError(field, `must be a text of at most ${charsMax} characters`);
  return storable(value);
}
