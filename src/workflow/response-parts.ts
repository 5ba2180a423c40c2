import { InvalidInputError } from "../core/errors.js";

/** A response as it is kept. */
export interface ResponseParts {
  readonly status: number;
  readonly statusText: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Uint8Array | null;
}

export async function partsOf(field: string, response: unknown, bytesMax: number): Promise<ResponseParts> {
  if (!(response instanceof Response)) throw new InvalidInputError(field, "must be a Response");
  const { status, statusText, headers } = response;
  if (status < 200) throw new InvalidInputError(field, `has the status ${status}: it is not one that can be sent`);
  return { status, statusText, headers: [...headers], body: await readBody(field, response, bytesMax) };
}

export function responseOf({ status, statusText, headers, body }: ResponseParts): Response {
  return new Response(body as Uint8Array<ArrayBuffer> | null, {
    status,
    statusText,
    headers: headers.map(([name, value]) => [name, value] as [string, string]),
  });
}

/** Reads no more than the bound: whoever sends more is refused without being heard to the end. */
export async function readBody(field: string, from: Request | Response, bytesMax: number): Promise<Uint8Array | null> {
  if (from.bodyUsed) throw new InvalidInputError(field, "has a body that was read before; hand in a clone");
  if (from.body === null) return null;
  const tooLong = () => new BodyTooLongError(field, bytesMax);
  if (Number(from.headers.get("content-length") ?? 0) > bytesMax) throw tooLong();
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of from.body as unknown as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength;
    if (bytes > bytesMax) throw tooLong();
    chunks.push(chunk);
  }
  return Uint8Array.from(Buffer.concat(chunks));
}

export class BodyTooLongError extends InvalidInputError {
  static override readonly kind: string = "BodyTooLongError";
  constructor(field: string, bytesMax: number) {
    super(field, `has a body of more than ${bytesMax} bytes, which is the bound`);
  }
}
