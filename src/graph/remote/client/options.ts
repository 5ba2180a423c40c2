import { InvalidInputError } from "../../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../../core/errors/known-options.js";
import { whole } from "../../../core/ledger/key-ref.js";
import { duration } from "../../../core/ledger/options.js";
import { nodeUrl } from "../protocol/node-url.js";
import { checkToken } from "../protocol/token.js";

/** Certificates of a client, as PEM texts. */
export interface NodeClientTls {
  /** Certificate authority of the server's certificate. Default: those that Node trusts. */
  readonly ca?: string | Buffer;
  /** Certificate and key of this client, if the server wants one. */
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  /** The name in the server's certificate, if it is not the host of the URL. */
  readonly serverName?: string;
}

/** Options of NodeClient. Only `url` is required. */
export interface NodeClientOptions {
  /** `http://`, `https://`, `grpc://` or `grpcs://`, with host and port. gRPC needs the packages @grpc/grpc-js and @grpc/proto-loader. */
  readonly url: string;
  /** Sent as `Authorization: Bearer …`. */
  readonly token?: string;
  readonly tls?: NodeClientTls;
  /** Calls at a time. Default 100. */
  readonly concurrency?: number;
  /** Calls that may wait for one of these slots; further ones fail with RATE_LIMITED. Default 1000. */
  readonly queueMax?: number;
  /** Time limit of a call. A delivery with less time left has less. Default: the time that the delivery has. */
  readonly timeoutMs?: number;
  /** Maximum size of an answer. Default 10 MiB. */
  readonly answerBytesMax?: number;
}

const optionNames: OptionNames<NodeClientOptions> = {
  ...{ url: true, token: true, tls: true, concurrency: true, queueMax: true, timeoutMs: true, answerBytesMax: true },
};

const tlsNames: OptionNames<NodeClientTls> = { ca: true, cert: true, key: true, serverName: true };

export interface NodeClientPolicy {
  readonly url: URL;
  /** Without credentials, query and a slash at the end: for messages. */
  readonly label: string;
  readonly token: string | undefined;
  readonly tls: NodeClientTls;
  readonly concurrency: number;
  readonly queueMax: number;
  readonly timeoutMs: number;
  readonly answerBytesMax: number;
}

const mib = 1024 * 1024;
/** The longest time limit that a server accepts by default. */
export const callMsMax = 3_600_000;

export function checkNodeClientOptions(options: NodeClientOptions): NodeClientPolicy {
  knownOptions("NodeClient", options, optionNames);
  const { token, tls = {}, concurrency = 100, queueMax = 1000, timeoutMs = callMsMax, answerBytesMax = 10 * mib } = options;
  if (token !== undefined) checkToken(token);
  knownOptions("NodeClient: tls", tls, tlsNames);
  if ((tls.cert === undefined) !== (tls.key === undefined)) throw new InvalidInputError("tls", "needs both cert and key, or neither");
  whole("concurrency", concurrency, 1, 100_000);
  whole("queueMax", queueMax, 0, 1_000_000);
  duration("timeoutMs", timeoutMs, 1, callMsMax);
  whole("answerBytesMax", answerBytesMax, 1, 1024 * mib);
  const url = nodeUrl(options.url);
  if (url.protocol.endsWith("s:") === false && options.tls !== undefined)
    throw new InvalidInputError("tls", `is set, but the url is ${url.protocol}//; use ${url.protocol === "http:" ? "https" : "grpcs"}://`);
  const label = `${url.protocol}//${url.host}${url.pathname.replace(/\/$/, "")}`;
  return { url, label, token, tls, concurrency, queueMax, timeoutMs, answerBytesMax };
}
