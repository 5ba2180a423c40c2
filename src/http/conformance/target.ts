import { randomUUID } from "node:crypto";
import { InvalidInputError } from "../../core/errors/errors.js";

/** What the suite has to know of a server that it knows nothing else of. */
export interface ConformanceOptions {
  /** Sent with every request, to get in: `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The n-th body: another one for every n. Default `{"conformance": n}`. */
  readonly body?: (n: number) => unknown;
  /** Default "Idempotency-Key". */
  readonly header?: string;
  /** Whether a request without a key is to be refused. Default true. */
  readonly keyRequired?: boolean;
  /** Default 255. */
  readonly keyCharsMax?: number;
  /** What marks a replay; null when nothing does. Default "Idempotent-Replayed". */
  readonly replayedHeader?: string | null;
  /** As the URL, and its handler takes a second or more. */
  readonly slowUrl?: string;
  /** As the URL, and its handler fails with 5xx every time. */
  readonly failingUrl?: string;
  /** As the URL, and answers with bytes that are no UTF-8. */
  readonly binaryUrl?: string;
  /** As the URL, and sets two cookies. */
  readonly cookieUrl?: string;
  /** Another route, whose keys are its own. */
  readonly otherUrl?: string;
  /** The headers of somebody else, whose keys are their own. */
  readonly otherCaller?: Readonly<Record<string, string>>;
  /** Counts at the other side: how often the operation with this key took effect. */
  readonly effects?: (key: string) => number | Promise<number>;
  /** The same as a URL, with `{key}` in it: GET answers with the number. */
  readonly effectsUrl?: string;
  /** The server keeps failures (5xx), too, and replays them. Default false. */
  readonly keepsFailures?: boolean;
  /** How long a key may be answered with 409 after its client has left. Default 20 s. */
  readonly settleMsMax?: number;
  /** Where the table goes. Default: standard output. */
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

/** What a case saw that should not be. */
export class Failed extends Error {}

/** How long a server may stay silent. */
const answerMs = 30_000;

/** The server under test, as its clients see it. */
export class Target {
  readonly url: string;
  readonly options: ConformanceOptions;
  /** Keys under which one effect is to be found in the end. */
  readonly executed = new Set<string>();

  constructor(url: string, options: ConformanceOptions) {
    if (options.effectsUrl !== undefined && !(URL.canParse(options.effectsUrl) && options.effectsUrl.includes("{key}")))
      throw new InvalidInputError("effectsUrl", `"${options.effectsUrl}" must be a URL with {key} in it`);
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

  /** How often the operation with this key took effect. */
  async effectsOf(key: string): Promise<number> {
    const { effects, effectsUrl = "", headers = {} } = this.options;
    if (effects !== undefined) return await effects(key);
    const url = effectsUrl.replaceAll("{key}", encodeURIComponent(key));
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(answerMs) });
    const text = (await response.text()).trim();
    expect(
      response.ok && /^\d+$/.test(text),
      `effectsUrl answered with ${response.status} and "${text.slice(0, 100)}"; a number was expected`,
    );
    return Number(text);
  }

  /** A first request, which must be let through. */
  async execute(sent: Sent & { readonly key: string }): Promise<Got> {
    const got = await this.send(sent);
    expect(isSuccess(got), `a first request was answered with ${got.status}; 2xx or 3xx was expected`);
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
  expect(again.status === first.status, `${what} was answered with ${again.status}; the first answer was ${first.status}`);
  expect(again.bytes.equals(first.bytes), `${what} was answered with another body than the first time`);
  for (const name of ["content-type", "location"]) {
    const [value, valueAgain] = [first, again].map(({ headers }) => headers.get(name));
    expect(value === valueAgain, `${what} has the ${name} ${valueAgain ?? "(none)"}; the first answer had ${value ?? "(none)"}`);
  }
}

export function expectProblem(got: Got, status: number, what: string): void {
  expect(got.status === status, `${what} was answered with ${got.status}; ${status} was expected`);
}
