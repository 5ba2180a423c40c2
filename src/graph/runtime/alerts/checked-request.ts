import type { LookupAddress } from "node:dns";
import { type IncomingMessage, request as requestOverHttp } from "node:http";
import { request as requestOverHttps } from "node:https";
import type { LookupFunction } from "node:net";
import { unescape as decoded } from "node:querystring";
import { checkedAddresses, hostOf, type PrivateWebhooks } from "./private-address.js";

/** A request to a server that a document or a packet names. */
export interface CheckedRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal: AbortSignal;
  /** Whether the server may have a private address. */
  readonly privateAddresses: PrivateWebhooks;
  /** How much of the response is read at most. 0: its body is not read. */
  readonly bytesMax: number;
}

export interface CheckedResponse {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  /** Undefined: the body is longer than `bytesMax`. */
  readonly body: Buffer | undefined;
}

/**
 * Makes a request; returns undefined, without a connection, if the host has a refused private address. It connects to the addresses
 * that were checked: `fetch` would resolve the name again, and could get a private address. It follows no redirect, because the
 * target would not be checked.
 */
export async function requestChecked(asked: CheckedRequest): Promise<CheckedResponse | undefined> {
  const { method, url, headers, body, signal, privateAddresses, bytesMax } = asked;
  const addresses = await orAborted(checkedAddresses(hostOf(url), privateAddresses), signal);
  if (addresses === undefined) return undefined;
  const lookup: LookupFunction = (_, options, found) => {
    const [first] = addresses as [LookupAddress];
    if (options.all) found(null, addresses as LookupAddress[]);
    else found(null, first.address, first.family);
  };
  const request = url.protocol === "https:" ? requestOverHttps : requestOverHttp;
  const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
  return await new Promise((resolve, reject) => {
    const fail = (error: unknown) => reject(signal.aborted ? signal.reason : error);
    const asking = request(url, { method, headers: { ...headers, ...length }, lookup, signal, agent: false });
    asking.on("error", fail);
    asking.on("response", (response) => {
      const { statusCode: status = 0, headers: received } = response;
      readBody(response, bytesMax).then((read) => resolve({ status, headers: received, body: read }), fail);
    });
    asking.end(body);
  });
}

/** Undefined if the body is longer than `bytesMax`: the rest is not received. */
async function readBody(response: IncomingMessage, bytesMax: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  if (bytesMax === 0) {
    response.destroy();
    return undefined;
  }
  // Leaving the loop destroys the response.
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bytesMax) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

/** An http or https URL, whose user name and password become an Authorization header. Undefined for any other text. */
export function addressOf(text: string): { readonly url: URL; readonly headers: Readonly<Record<string, string>> } | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  if (url.protocol !== "http:" && url.protocol !== "https:") return undefined;
  const user = `${decoded(url.username)}:${decoded(url.password)}`;
  url.username = "";
  url.password = "";
  return { url, headers: user === ":" ? {} : { authorization: `Basic ${Buffer.from(user).toString("base64")}` } };
}

/** Why a request got no response: the error's code or name, not its message, which contains the address. */
export function unreachableReason(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  const { code } = error as { readonly code?: unknown };
  return typeof code === "string" ? code : error.name;
}
