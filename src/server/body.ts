import { take } from "../http/take.js";
import { tooLong } from "../http/web.js";
import { ServerProblemError } from "./problem.js";

/** Maximum nesting of a payload: the code that handles payloads is recursive. */
const depthMax = 100;

/** Reads the body as a JSON object of at most `bytesMax` bytes. */
export async function jsonBody(request: Request, bytesMax: number): Promise<Readonly<Record<string, unknown>>> {
  const [type = ""] = (request.headers.get("content-type") ?? "").split(";");
  // A body without a content type is taken if it parses as JSON; hostGuard has already rejected web pages of other origins.
  if (type.trim() !== "" && !/^application\/([\w.-]+\+)?json$/i.test(type.trim())) throw new ServerProblemError("media-type-refused");
  if (!/^(identity)?$/i.test(request.headers.get("content-encoding") ?? ""))
    throw new ServerProblemError("media-type-refused", "compressed bodies are not supported; omit content-encoding");
  if (Number(request.headers.get("content-length") ?? 0) > bytesMax) throw tooLong(bytesMax);
  const { bytes, rest } = await take((request.body ?? []) as unknown as AsyncIterable<Uint8Array>, bytesMax).catch(cutShort);
  if (rest !== undefined) {
    await rest.return(undefined);
    throw tooLong(bytesMax);
  }
  const value = parsed(bytes);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new ServerProblemError("body-malformed", "the body must be a JSON object");
  if (isDeep(value)) throw new ServerProblemError("body-malformed", `the body is nested deeper than ${depthMax} levels`);
  return value as Readonly<Record<string, unknown>>;
}

/** The client disconnected before it sent the whole body. */
function cutShort(): never {
  throw new ServerProblemError("body-malformed", "the body is incomplete");
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new ServerProblemError("body-malformed", bytes.byteLength === 0 ? "the body is empty" : "the body is not valid JSON in UTF-8");
  }
}

/** Checks level by level; recursion could overflow the stack on hostile input. */
function isDeep(value: object): boolean {
  let level: object[] = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth === depthMax) return true;
    level = level.flatMap((each) => Object.values(each).filter((member) => typeof member === "object" && member !== null));
  }
  return false;
}
