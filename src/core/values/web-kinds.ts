import { InvalidInputError } from "../errors/errors.js";
import type { KeepBounds, ValueKind } from "./kinds.js";

/**
 * Encoding of web platform classes: headers, requests, responses, files, forms. A body is read from a clone, up to a limit, so that the
 * original can still be read. A class is referred to only after its tag matched, because Node loads these classes when they are first
 * named.
 */

/** A string if the bytes are UTF-8 text, so that people can read it in the database. */
export type KeptBody = string | Uint8Array;

const headersKind: ValueKind<Headers, [string, string][]> = {
  name: "Headers",
  holds: (value): value is Headers => isTagged(value, "Headers") && value instanceof Headers,
  keep: (headers) => [...headers],
  make: (entries) => new Headers(entries),
};

interface KeptRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: [string, string][];
  readonly redirect: Request["redirect"];
  readonly body: KeptBody | null;
}

const requestKind: ValueKind<Request, KeptRequest> = {
  name: "Request",
  holds: isRequest,
  waits: ({ body }) => body !== null,
  keep(request, bounds) {
    const { method, url, headers, redirect } = request;
    const kept = { method, url, headers: [...headers], redirect, body: null };
    return withBody(kept, request, bounds);
  },
  make: ({ method, url, headers, redirect, body }) => new Request(url, { method, headers, redirect, body: bytesOf(body) }),
};

interface KeptResponse {
  readonly status: number;
  readonly statusText: string;
  readonly headers: [string, string][];
  readonly url: string;
  readonly body: KeptBody | null;
}

const responseKind: ValueKind<Response, KeptResponse> = {
  name: "Response",
  holds: isResponse,
  waits: ({ body }) => body !== null,
  keep(response, bounds) {
    const { status, statusText, headers, url } = response;
    return withBody({ status, statusText, headers: [...headers], url, body: null }, response, bounds);
  },
  make({ status, statusText, headers, url, body }) {
    // A network error: the constructor does not accept status 0.
    if (status === 0) return Response.error();
    const response = new Response(bytesOf(body), { status, statusText, headers });
    // The constructor does not accept a URL.
    return url === "" ? response : Object.defineProperty(response, "url", { value: url, configurable: true });
  },
};

interface KeptFile {
  readonly type: string;
  readonly body: KeptBody;
  readonly name?: string;
  readonly lastModified?: number;
}

const fileKind: ValueKind<File, KeptFile> = {
  name: "File",
  holds: (value): value is File => isTagged(value, "File") && value instanceof File,
  waits: () => true,
  async keep(file, bounds) {
    const { type, name, lastModified } = file;
    return { type, name, lastModified, body: await blobBytes(file, bounds) };
  },
  make: ({ type, name = "", lastModified = 0, body }) => new File([bytesOf(body)], name, { type, lastModified }),
};

const blobKind: ValueKind<Blob, KeptFile> = {
  name: "Blob",
  holds: (value): value is Blob => isTagged(value, "Blob") && value instanceof Blob,
  waits: () => true,
  keep: async (blob, bounds) => ({ type: blob.type, body: await blobBytes(blob, bounds) }),
  make: ({ type, body }) => new Blob([bytesOf(body)], { type }),
};

const formDataKind: ValueKind<FormData, [string, string | File][]> = {
  name: "FormData",
  holds: (value): value is FormData => isTagged(value, "FormData") && value instanceof FormData,
  keep: (form) => [...form],
  make(entries) {
    const form = new FormData();
    for (const [name, value] of entries) form.append(name, value as string);
    return form;
  },
};

/** A view of a part of a buffer. Only the bytes of the view are stored: the rest of the buffer may hold unrelated data. */
const viewKind: ValueKind<ArrayBufferView, ArrayBufferView> = {
  name: "view",
  holds: (value): value is ArrayBufferView =>
    ArrayBuffer.isView(value) &&
    !Buffer.isBuffer(value) &&
    (value.byteLength !== value.buffer.byteLength || !(value.buffer instanceof ArrayBuffer)),
  keep(view) {
    const { buffer } = Uint8Array.from(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
    return new (view.constructor as new (buffer: ArrayBufferLike) => ArrayBufferView)(buffer);
  },
  make: (view) => view,
};

export const webKinds = [headersKind, requestKind, responseKind, fileKind, blobKind, formDataKind, viewKind] as unknown as ValueKind[];

/** True for the built-in class and for a server framework's own Response class, which may even replace the global one. */
export function isResponse(value: unknown): value is Response {
  return isTagged(value, "Response") && isWeb(value);
}

export function isRequest(value: unknown): value is Request {
  return isTagged(value, "Request") && isWeb(value);
}

function isWeb(value: object): boolean {
  return typeof (value as Partial<Response>).clone === "function";
}

function isTagged(value: unknown, tag: string): value is object {
  return typeof value === "object" && value !== null && (value as Record<symbol, unknown>)[Symbol.toStringTag] === tag;
}

export function bytesOf<Body extends KeptBody | null>(body: Body): Body extends null ? null : Uint8Array<ArrayBuffer>;
export function bytesOf(body: KeptBody | null): Uint8Array | null {
  // Always bytes: from a string, Request and Response would derive a Content-Type.
  return typeof body === "string" ? new TextEncoder().encode(body) : body;
}

function withBody<Kept extends object>(
  kept: Kept,
  of: Request | Response,
  { bytesMax }: KeepBounds,
): (Kept & { body: KeptBody | null }) | Promise<Kept & { body: KeptBody | null }> {
  if (of.bodyUsed || of.body?.locked)
    throw new InvalidInputError("value", "its body was already read; read the body after the value is stored, or store a clone()");
  const { body } = of.clone();
  return body === null ? { ...kept, body } : readUpTo(bytesMax, body).then((bytes) => ({ ...kept, body: readable(bytes) }));
}

export async function readUpTo(bytesMax: number, body: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  const reader = body.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    length += next.value.byteLength;
    if (length > bytesMax) {
      // Not awaited: for a clone it resolves only when the original is cancelled too.
      reader.cancel().catch(() => {});
      throw tooLong(`more than ${bytesMax} bytes`, bytesMax);
    }
    chunks.push(next.value);
  }
  return Buffer.concat(chunks);
}

async function blobBytes(blob: Blob, { bytesMax }: KeepBounds): Promise<KeptBody> {
  if (blob.size > bytesMax) throw tooLong(`${blob.size} bytes`, bytesMax);
  return readable(new Uint8Array(await blob.arrayBuffer()));
}

function tooLong(found: string, bytesMax: number): InvalidInputError {
  return new InvalidInputError("value", `it has ${found}, but the limit is ${bytesMax}; store it elsewhere and keep a reference to it`);
}

export function readable(bytes: Uint8Array): KeptBody {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return bytes;
  }
}
