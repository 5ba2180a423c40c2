import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions } from "../../core/errors/known-options.js";
import { sleep } from "../../core/work/clock.js";
import { checkMediaType, jsonIn, rawBody } from "../body.js";
import type { Fields } from "./fields.js";
import type { ApiPolicy } from "./options.js";
import { ApiProblem } from "./problems.js";

/** Reads and checks the query parameters of a request. */
export function queryInput(where: string, request: Request, fields: Fields): Readonly<Record<string, unknown>> {
  const given = new Map<string, unknown>();
  for (const [name, value] of new URL(request.url).searchParams) {
    if (given.has(name) && name.length <= nameCharsMax) throw new InvalidInputError(name, "is given twice");
    given.set(name, Object.hasOwn(fields, name) ? fields[name]?.ofText(value) : value);
  }
  return checked(where, Object.fromEntries(given), fields);
}

/** Reads and checks the body of a request. */
export async function bodyInput(
  where: string,
  request: Request,
  fields: Fields,
  policy: ApiPolicy,
): Promise<Readonly<Record<string, unknown>>> {
  if (new URL(request.url).search !== "") throw new InvalidInputError(where, "takes its input in the body, not in the query");
  // A browser sends a form, a text and a Blob without a type to other sites without asking them first.
  if (request.headers.get("content-type") === null) throw new ApiProblem("MEDIA_TYPE_REFUSED", "the content-type is missing");
  checkMediaType(request);
  const body = jsonIn(await inTime(rawBody(request, policy.bodyBytesMax), policy));
  if (Object.hasOwn(body, "actor")) throw new InvalidInputError("actor", "is not part of a request: the server knows who sends it");
  return checked(where, body, fields);
}

async function inTime<T>(reading: Promise<T>, { store, bodyMsMax }: ApiPolicy): Promise<T> {
  const stop = new AbortController();
  const late = sleep(store.clock, bodyMsMax, stop.signal).then(() => {
    throw new ApiProblem("BODY_MALFORMED", `the body did not arrive within ${bodyMsMax} ms`);
  });
  late.catch(() => {});
  return await Promise.race([reading, late]).finally(() => stop.abort());
}

const nameCharsMax = 100;

function checked(where: string, given: Readonly<Record<string, unknown>>, fields: Fields): Readonly<Record<string, unknown>> {
  // A name is repeated in the answer.
  for (const name of Object.keys(given))
    if (name.length > nameCharsMax) throw new InvalidInputError(where, "has an input with a very long name");
  const names = Object.fromEntries(Object.keys(fields).map((name) => [name, true as const]));
  knownOptions(where, given, names);
  const input: [string, unknown][] = [];
  for (const [name, field] of Object.entries(fields)) {
    if (Object.hasOwn(given, name)) input.push([name, field.read(given[name], name)]);
    else if (field.required) throw new InvalidInputError(name, `is missing: ${field.about}`);
  }
  return Object.fromEntries(input);
}
