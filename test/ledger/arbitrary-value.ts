import { FatalError } from "onceflow/workflow";
import { fc } from "../kit/properties.js";

/** Values of every kind that can be stored, alone and combined, and a comparable form of each. */

export class Money {
  readonly cents: bigint;
  readonly currency: string;
  constructor(cents: bigint, currency: string) {
    this.cents = cents;
    this.currency = currency;
  }
}

const text = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.constantFrom("\0", "a\0b", "\ud800", "a\udc00b", "devalue:[1]", "sealed:k:AAAA", "</script>", "\u2028", "'; --", "toJSON"),
);
const header = fc.stringMatching(/^[\x21-\x7e]{0,20}$/);
const headers = fc
  .record({ type: fc.constantFrom("text/plain", "application/octet-stream"), x: header, cookies: fc.array(header, { maxLength: 3 }) })
  .map(({ type, x, cookies }) => {
    const entries: [string, string][] = [
      ["content-type", type],
      ["x-y", x],
      ...cookies.map((cookie): [string, string] => ["set-cookie", cookie]),
    ];
    return new Headers(entries);
  });
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  text.map((each) => new TextEncoder().encode(each)),
);
const url = fc.webUrl({ withQueryParameters: true });

const request = fc
  .record({
    url,
    headers,
    method: fc.constantFrom("GET", "POST", "PUT", "DELETE"),
    body: bytes,
    redirect: fc.constantFrom("follow", "manual"),
  })
  .map(({ url, headers, method, body, redirect }) => {
    return new Request(url, { method, headers, redirect: redirect as "follow", ...(method === "GET" ? {} : { body: body }) });
  });
const response = fc
  .record({
    status: fc.constantFrom(200, 201, 204, 301, 404, 503),
    headers,
    body: fc.option(bytes),
    statusText: fc.constantFrom("", "Teapot"),
  })
  .map(({ status, headers, body, statusText }) => new Response(status === 204 ? null : body, { status, headers, statusText }));
const file = fc
  .record({ body: bytes, name: fc.string(), type: fc.constantFrom("", "text/plain"), lastModified: fc.nat() })
  .map(({ body, name, type, lastModified }) => new File([body], name, { type, lastModified }));
const blob = bytes.map((body) => new Blob([body], { type: "image/png" }));
const form = fc.array(fc.tuple(fc.stringMatching(/^[a-z]{1,5}$/), fc.oneof(fc.stringMatching(/^[a-z ]{0,9}$/), file))).map((entries) => {
  const form = new FormData();
  for (const [name, value] of entries) form.append(name, value as string);
  return form;
});

const builtIn = [Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError];
const error = fc
  .record({
    of: fc.constantFrom(...builtIn),
    message: text,
    code: fc.option(fc.oneof(fc.string(), fc.integer()), { nil: undefined }),
    cause: fc.oneof(
      fc.constant(undefined),
      fc.constant("a string"),
      fc.constant(new TypeError("inner", { cause: new RangeError("innermost") })),
    ),
    own: fc.option(fc.record({ status: fc.integer(), at: fc.date() }), { nil: undefined }),
  })
  .map(({ of, message, code, cause, own }) =>
    Object.assign(new of(message, cause === undefined ? undefined : { cause }), own, code === undefined ? {} : { code }),
  );
const errors = fc.oneof(
  error,
  text.map((message) => new FatalError(message, { cause: new TypeError("why") })),
  fc.array(error, { maxLength: 3 }).map((all) => new AggregateError(all, "all of them")),
  text.map((message) => new DOMException(message, "AbortError")),
);

const views = fc.oneof(
  fc.uint8Array(),
  fc.int16Array(),
  fc.float64Array(),
  fc.bigInt64Array(),
  fc.uint8ClampedArray(),
  fc.uint8Array({ minLength: 8, maxLength: 40 }).map((all) => all.subarray(2, 6)),
  fc.uint8Array({ maxLength: 20 }).map((all) => Buffer.from(all)),
  fc.uint8Array({ minLength: 8, maxLength: 8 }).map((all) => new DataView(all.buffer, 1, 3)),
  fc.uint8Array({ maxLength: 20 }).map((all) => all.slice().buffer),
);

const leaf = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.oneof(fc.jsonValue(), text, fc.double(), fc.integer(), fc.bigInt(), fc.boolean(), fc.constantFrom(null, undefined)),
  },
  {
    weight: 2,
    arbitrary: fc.oneof(
      fc.date(),
      views,
      url.map((each) => new URL(each)),
      fc.constantFrom(/a+/gi, /[\s\S]\u{1f600}/u),
    ),
  },
  { weight: 1, arbitrary: fc.webQueryParameters().map((each) => new URLSearchParams(each)) },
  { weight: 1, arbitrary: fc.tuple(fc.bigInt(), fc.string()).map(([cents, currency]) => new Money(cents, currency)) },
  { weight: 2, arbitrary: errors },
);
const web = fc.oneof(headers, request, response, blob, file, form);
const memberName = text.filter((name) => name !== "__proto__");

function mixture(of: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      of,
      fc.array(tie("value"), { maxLength: 4 }),
      fc.sparseArray(tie("value"), { maxNumElements: 3 }),
      fc.dictionary(memberName, tie("value"), { maxKeys: 4 }),
      fc.array(fc.tuple(tie("value"), tie("value")), { maxLength: 3 }).map((entries) => new Map(entries)),
      fc.array(tie("value"), { maxLength: 3 }).map((members) => new Set(members)),
    ),
  })).value;
}

/** Values that can be encoded synchronously, and values that may have to be read first. */
export const promptValue = mixture(fc.oneof(leaf, headers));
export const anyValue = mixture(fc.oneof({ weight: 2, arbitrary: leaf }, { weight: 1, arbitrary: web }));

/** The comparable form of a value: its class, and everything that must be read back. Bodies are read from a clone. */
export async function shapeOf(value: unknown): Promise<unknown> {
  if (typeof value === "function") return ["function", value];
  if (typeof value !== "object" || value === null) return value;
  const members = async (list: Iterable<unknown>) => await Promise.all([...list].map(shapeOf));
  if (value instanceof Error) return await shapeOfError(value);
  if (value instanceof Date) return ["Date", value.getTime()];
  if (value instanceof RegExp || value instanceof URL || value instanceof URLSearchParams) return [value.constructor.name, String(value)];
  if (value instanceof Map) return ["Map", await members([...value].flat())];
  if (value instanceof Set) return ["Set", await members(value)];
  if (value instanceof ArrayBuffer) return ["ArrayBuffer", [...new Uint8Array(value)]];
  if (Buffer.isBuffer(value)) return ["Uint8Array", [...value]];
  if (ArrayBuffer.isView(value)) return [value.constructor.name, [...new Uint8Array(value.buffer, value.byteOffset, value.byteLength)]];
  if (value instanceof Headers) return ["Headers", [...value]];
  if (value instanceof Request) return ["Request", value.method, value.url, value.redirect, [...value.headers], await bodyOf(value)];
  if (value instanceof Response) return ["Response", value.status, value.statusText, value.url, [...value.headers], await bodyOf(value)];
  if (value instanceof File) return ["File", value.name, value.type, value.lastModified, [...new Uint8Array(await value.arrayBuffer())]];
  if (value instanceof Blob) return ["Blob", value.type, [...new Uint8Array(await value.arrayBuffer())]];
  if (value instanceof FormData) return ["FormData", await members([...value].flat())];
  if (value instanceof Money) return ["Money", value.cents, value.currency];
  if (Array.isArray(value)) return ["Array", value.length, await members(Object.entries(value).flat())];
  return ["Object", await members(Object.entries(value).flat())];
}

async function bodyOf(of: Request | Response): Promise<number[] | null> {
  return of.body === null ? null : [...new Uint8Array(await of.clone().arrayBuffer())];
}

async function shapeOfError(error: Error): Promise<unknown> {
  const { name, message, cause } = error;
  const { code, errors } = error as { readonly code?: unknown; readonly errors?: unknown };
  const own = Object.entries(error).filter(([, value]) => value !== undefined);
  return [error.constructor.name, name, message, code, await shapeOf(errors), await shapeOf(cause), await shapeOf(Object.fromEntries(own))];
}
