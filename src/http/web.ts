import { assert } from "../core/errors/errors.js";
import type { RequestBody } from "./fingerprint.js";
import { Refusal } from "./problem.js";
import type { Captured, Reply } from "./reply.js";
import { type Taken, take, whole } from "./take.js";

/** Reads the body of a Fetch request and leaves it readable for the handler. */
export async function requestBytes(request: Request, bytesMax: number): Promise<RequestBody> {
  if (request.body === null) return { bytes: new Uint8Array() };
  if (request.bodyUsed) throw new TypeError("the request's body was read before idempotent(); pass a request whose body is unread");
  if (Number(request.headers.get("content-length") ?? 0) > bytesMax) throw tooLong(bytesMax);
  const { bytes, rest } = await take(request.clone().body as unknown as AsyncIterable<Uint8Array>, bytesMax);
  if (rest === undefined) return { bytes };
  throw tooLong(bytesMax);
}

export function tooLong(bytesMax: number): Refusal {
  return new Refusal("body-too-long", `the maximum is ${bytesMax} bytes`);
}

/** A response that was read up to the limit. */
export interface Capture {
  readonly captured: Captured;
  /** The same response, including the unread rest, with additional headers. */
  readonly resend: (more: Reply["headers"]) => Response;
  /** Cancels the unread rest. */
  readonly drop: () => void;
}

export async function capture(response: Response, bytesMax: number): Promise<Capture> {
  const { status, statusText, body } = response;
  const headers: [string, string][] = [...response.headers];
  const taken: Taken | null = body === null ? null : await take(body as unknown as AsyncIterable<Uint8Array>, bytesMax);
  return {
    captured: { status, headers, body: taken?.bytes ?? null, whole: taken?.rest === undefined },
    resend(more) {
      const content = taken === null ? null : taken.rest === undefined ? taken.bytes : ReadableStream.from(whole(taken));
      return new Response(content as Uint8Array<ArrayBuffer> | null, { status, statusText, headers: mutable([...headers, ...more]) });
    },
    drop: () => void taken?.rest?.return(undefined),
  };
}

/** The response to send: the handler's own, or the reply that replaces it. */
export function sent(reply: Reply | "captured", made: Capture | undefined, ownHeaders: Reply["headers"]): Response {
  if (reply === "captured" && made !== undefined) return made.resend(ownHeaders);
  assert(reply !== "captured", "a captured response must exist to be sent");
  made?.drop();
  return responseOf(reply);
}

export function responseOf({ status, headers, body }: Reply): Response {
  return new Response(body as Uint8Array<ArrayBuffer> | null, { status, headers: mutable(headers) });
}

function mutable(headers: Reply["headers"]): [string, string][] {
  return headers.map(([name, value]) => [name, value]);
}
