import { take } from "../http/take.js";
import { tooLong } from "../http/web.js";
import { Refused } from "./problem.js";

/** Levels of a payload. Whatever goes through it later goes down by calling itself. */
const depthMax = 100;

/** The body as an object, read up to the bound. */
export async function jsonBody(request: Request, bytesMax: number): Promise<Readonly<Record<string, unknown>>> {
  const [type = ""] = (request.headers.get("content-type") ?? "").split(";");
  // Without one it is JSON if it parses; from a web page of another origin it is refused before this.
  if (type.trim() !== "" && !/^application\/([\w.-]+\+)?json$/i.test(type.trim())) throw new Refused("media-type-refused");
  if (!/^(identity)?$/i.test(request.headers.get("content-encoding") ?? ""))
    throw new Refused("media-type-refused", "it must not be packed: leave out content-encoding");
  if (Number(request.headers.get("content-length") ?? 0) > bytesMax) throw tooLong(bytesMax);
  const { bytes, rest } = await take((request.body ?? []) as unknown as AsyncIterable<Uint8Array>, bytesMax).catch(cutShort);
  if (rest !== undefined) {
    await rest.return(undefined);
    throw tooLong(bytesMax);
  }
  const value = parsed(bytes);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Refused("body-malformed", "it must be an object with named members");
  if (isDeep(value)) throw new Refused("body-malformed", `it is nested deeper than ${depthMax} levels`);
  return value as Readonly<Record<string, unknown>>;
}

/** Its sender has gone. */
function cutShort(): never {
  throw new Refused("body-malformed", "it was cut short");
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new Refused("body-malformed", bytes.byteLength === 0 ? "it is empty" : "it is not JSON in UTF-8");
  }
}

/** Level by level, without calling itself. */
function isDeep(value: object): boolean {
  let level: object[] = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth === depthMax) return true;
    level = level.flatMap((each) => Object.values(each).filter((member) => typeof member === "object" && member !== null));
  }
  return false;
}
