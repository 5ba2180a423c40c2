import { isDeepJson, jsonDepthMax } from "../core/values/json-depth.js";
import { take } from "../http/take.js";
import { tooLong } from "../http/web.js";
import { ServerProblemError } from "./problem.js";

/** Reads the body as a JSON object of at most `bytesMax` bytes. */
export async function jsonBody(request: Request, bytesMax: number): Promise<Readonly<Record<string, unknown>>> {
  checkMediaType(request);
  return jsonIn(await rawBody(request, bytesMax));
}

/** Also rejects compressed bodies: a few bytes could become gigabytes. */
export function checkMediaType(request: Request): void {
  const [type = ""] = (request.headers.get("content-type") ?? "").split(";");
  // A body without a content type is taken if it parses as JSON; hostGuard has already rejected web pages of other origins.
  if (type.trim() !== "" && !/^application\/([\w.-]+\+)?json$/i.test(type.trim())) throw new ServerProblemError("media-type-refused");
  if (!/^(identity)?$/i.test(request.headers.get("content-encoding") ?? ""))
    throw new ServerProblemError("media-type-refused", "compressed bodies are not supported; omit content-encoding");
}

/** The bytes of the body, at most `bytesMax`. */
export async function rawBody(request: Request, bytesMax: number): Promise<Uint8Array> {
  if (Number(request.headers.get("content-length") ?? 0) > bytesMax) throw tooLong(bytesMax);
  const { bytes, rest } = await take((request.body ?? []) as unknown as AsyncIterable<Uint8Array>, bytesMax).catch(cutShort);
  if (rest !== undefined) {
    await rest.return(undefined);
    throw tooLong(bytesMax);
  }
  return bytes;
}

export function jsonIn(bytes: Uint8Array): Readonly<Record<string, unknown>> {
  const value = parsed(bytes);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new ServerProblemError("body-malformed", "the body must be a JSON object");
  if (isDeepJson(value)) throw new ServerProblemError("body-malformed", `the body is nested deeper than ${jsonDepthMax} levels`);
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
