import { randomUUID } from "node:crypto";
import { InvalidInputError } from "../../core/errors/errors.js";

/** Options of `conformance`: what the suite must know about the server. */
export interface ConformanceOptions {
  /** Headers to send with every request, for example `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Returns the n-th body, different for every n. Default `{"conformance": n}`. */
  readonly body?: (n: number) => unknown;
  /** Default "Idempotency-Key". */
  readonly header?: string;
  /** Whether the server rejects requests without a key. Default true. */
  readonly keyRequired?: boolean;
  /** Default 255. */
  readonly keyCharsMax?: number;
  /** Header that marks a replay; null if the server does not mark replays. Default "Idempotent-Replayed". */
  readonly replayedHeader?: string | null;
  /** A route that takes a second or more. */
  readonly slowUrl?: string;
  /** A route that always fails with 5xx. */
  readonly failingUrl?: string;
  /** A route that responds with bytes that are not UTF-8. */
  readonly binaryUrl?: string;
  /** A route that sets two cookies. */
  readonly cookieUrl?: string;
  /** A second route, with separate keys. */
  readonly otherUrl?: string;
  /** Headers that identify a second caller, with separate keys. */
  readonly otherCaller?: Readonly<Record<string, string>>;
  /** Returns how many times the operation with this key took effect, counted at the provider. */
  readonly effects?: (key: string) => number | Promise<number>;
  /** A URL containing `{key}`: GET returns how many times the operation took effect. */
  readonly effectsUrl?: string;
  /** Whether the server stores and replays failures (5xx), too. Default false. */
  readonly keepsFailures?: boolean;
  /** How long a key may get 409 after its client has disconnected. Default 20 s. */
  readonly settleMsMax?: number;
  /** Receives the table. Default: prints it to standard output. */
  readonly print?: (text: string) => void;
}

export interface Sent {
  readonly key?: string;
  readonly n?: number;
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export interface Got {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Buffer;
}

/** A case failed. */
export class Failed extends Error {}

/** Maximum time until a response. */
const answerMs = 30_000;

/** A client of the server under test. */
export class Target {
  readonly url: string;
  readonly options: ConformanceOptions;
  /** Keys that must have taken effect once at the end. */
  readonly executed = new Set<string>();

  constructor(url: string, options: ConformanceOptions) {
    if (options.effectsUrl !== undefined && !(URL.canParse(options.effectsUrl) && options.effectsUrl.includes("{key}")))
      throw new InvalidInputError("effectsUrl", `"${options.effectsUrl}" must be a URL that contains {key}`);
    this.url = url;
    this.options = options;
  }

  newKey(): string {
    return `conformance-${randomUUID()}`;
  }

  async send({ key, n = 1, url = this.url, headers, signal }: Sent): Promise<Got> {
    const { header = "Idempotency-Key", body = (n: number) => ({ conformance: n }) } = this.options;
    const limit = AbortSignal.timeout(answerMs);
    const response = await fetch(url, {
      method: "POST",
      redirect: "manual",
      headers: { "content-type": "application/json", ...this.options.headers, ...headers, ...(key === undefined ? {} : { [header]: key }) },
      body: JSON.stringify(body(n)),
      signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
    });
    return { status: response.status, headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) };
  }

  /** How many times the operation with this key took effect. */
  async effectsOf(key: string): Promise<number> {
    const { effects, effectsUrl = "", headers = {} } = this.options;
    if (effects !== undefined) return await effects(key);
    const url = effectsUrl.replaceAll("{key}", encodeURIComponent(key));
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(answerMs) });
    const text = (await response.text()).trim();
    expect(
      response.ok && /^\d+$/.test(text),
      `effectsUrl responded with ${response.status} and "${text.slice(0, 100)}"; expected a number`,
    );
    return Number(text);
  }

  /** Sends a first request, which must succeed. */
  async execute(sent: Sent & { readonly key: string }): Promise<Got> {
    const got = await this.send(sent);
    expect(isSuccess(got), `a first request got status ${got.status}; expected 2xx or 3xx`);
    this.executed.add(sent.key);
    return got;
  }
}

export function isSuccess({ status }: Got): boolean {
  return status >= 200 && status < 400;
}

export function expect(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Failed(otherwise);
}

export function expectSame(first: Got, again: Got, what: string): void {
  expect(again.status === first.status, `${what} got status ${again.status}; the first response had ${first.status}`);
  expect(again.bytes.equals(first.bytes), `${what} got a different body than the first response`);
  for (const name of ["content-type", "location"]) {
    const [value, valueAgain] = [first, again].map(({ headers }) => headers.get(name));
    expect(value === valueAgain, `${what} got ${name} ${valueAgain ?? "(none)"}; the first response had ${value ?? "(none)"}`);
  }
}

export function expectProblem(got: Got, status: number, what: string): void {
  expect(got.status === status, `${what} got status ${got.status}; expected ${status}`);
}
