import type { SecureContextOptions } from "node:tls";
import { ConfigurationError, InvalidInputError } from "../../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../../core/errors/known-options.js";
import { whole } from "../../../core/ledger/key-ref.js";
import { duration, leaseMsMax, leaseMsMin } from "../../../core/ledger/options.js";
import { requireStore } from "../../../core/store/require-store.js";
import type { Store } from "../../../core/store/store.js";
import { isLoopback } from "../../../core/values/loopback.js";
import { type GivenNode, type NodesOption, nodesOf } from "../../node/given-nodes.js";
import type { FlowNode } from "../../node/node.js";
import { NodeType } from "../../node/node-type.js";
import { checkToken } from "../protocol/token.js";

/** What the manifest of a server says about a node. */
export interface NodeDescription {
  readonly version?: string;
  readonly summary?: string;
  /** Names of the input ports. The runtime compares them with the document. */
  readonly inputs?: readonly string[];
  /** Names of the output ports. */
  readonly outputs?: readonly string[];
}

/** Certificates of a node server, as PEM texts. */
export interface NodeServerTls {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
  /** Certificate authority of client certificates. If set, clients without a certificate of it are refused (mutual TLS). */
  readonly clientCa?: string | Buffer;
}

/** Options of NodeServer. Only `nodes` is required. */
export interface NodeServerOptions {
  /** Nodes by operationId, or a list of BaseNode objects. */
  readonly nodes: NodesOption;
  /** Keeps the answers, so that a repeated invocation does not call the node. Default: in memory, 100,000 answers, lost at a restart. */
  readonly store?: Store;
  /** What the manifest says about nodes, by operationId. */
  readonly manifest?: Readonly<Record<string, NodeDescription>>;
  /** Passed to `init` of BaseNode objects, by operationId. The settings of the document arrive with each call: `context.settings`. */
  readonly settings?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** Address to bind. Default 127.0.0.1. Another address requires a token or client certificates. */
  readonly host?: string;
  /** Port for HTTP; 0 chooses a free one. Default 4100, or no HTTP if only `grpcPort` is set. */
  readonly port?: number;
  /** Port for gRPC; 0 chooses a free one. Needs the package @grpc/grpc-js. Default: no gRPC. */
  readonly grpcPort?: number;
  /** Token that callers send as `Authorization: Bearer …`: 16 or more printable ASCII characters. */
  readonly token?: string;
  readonly tls?: NodeServerTls;
  /** True: listen on other addresses than loopback without a token and without client certificates. Default false. */
  readonly allowUnauthenticated?: boolean;
  /** Invocations at a time; further ones get RATE_LIMITED. Default 100. */
  readonly concurrency?: number;
  /** Maximum size of a request. Default 10 MiB. */
  readonly bodyBytesMax?: number;
  /** How long a caller may take to send its request. Default 30 s. */
  readonly bodyMsMax?: number;
  /** The longest time limit of an invocation. Default 1 hour. */
  readonly deadlineMsMax?: number;
  /** How long `stop` waits for running invocations. Default 10 s. */
  readonly graceMs?: number;
  /** How long after the death of this process another one may call a node again that was running. Default 10 s. */
  readonly leaseMs?: number;
  /** How long answers are kept. Default 24 hours. */
  readonly retentionMs?: number;
}

const optionNames: OptionNames<NodeServerOptions> = {
  ...{ nodes: true, store: true, manifest: true, settings: true, host: true, port: true, grpcPort: true, token: true, tls: true },
  ...{ allowUnauthenticated: true, concurrency: true, bodyBytesMax: true, bodyMsMax: true, deadlineMsMax: true, graceMs: true },
  ...{ leaseMs: true, retentionMs: true },
};

const tlsNames: OptionNames<NodeServerTls> = { cert: true, key: true, clientCa: true };
const descriptionNames: OptionNames<NodeDescription> = { version: true, summary: true, inputs: true, outputs: true };

const mib = 1024 * 1024;
const hourMs = 3_600_000;

export interface NodeServerPolicy {
  readonly nodes: ReadonlyMap<string, FlowNode>;
  readonly descriptions: ReadonlyMap<string, NodeDescription>;
  readonly settings: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly host: string;
  readonly port: number | undefined;
  readonly grpcPort: number | undefined;
  readonly token: string | undefined;
  readonly tls: NodeServerTls | undefined;
  readonly concurrency: number;
  readonly bodyBytesMax: number;
  readonly bodyMsMax: number;
  readonly deadlineMsMax: number;
  readonly graceMs: number;
  readonly leaseMs: number;
  readonly retentionMs: number;
}

/** Checks all options before anything is opened. */
export function checkNodeServerOptions(options: NodeServerOptions): NodeServerPolicy {
  knownOptions("NodeServer", options, optionNames);
  const { host = "127.0.0.1", grpcPort, token, tls, manifest = {}, settings = {} } = options;
  const { port = grpcPort === undefined ? 4100 : undefined } = options;
  const { concurrency = 100, bodyBytesMax = 10 * mib, bodyMsMax = 30_000, deadlineMsMax = hourMs } = options;
  const { graceMs = 10_000, leaseMs = 10_000, retentionMs = 24 * hourMs } = options;
  if (options.store !== undefined) requireStore(options.store);
  if (typeof host !== "string" || host === "") throw new InvalidInputError("host", "must be an address or a host name");
  if (port !== undefined) whole("port", port, 0, 65_535);
  if (grpcPort !== undefined) whole("grpcPort", grpcPort, 0, 65_535);
  if (token !== undefined) checkToken(token);
  if (tls !== undefined) knownOptions("NodeServer: tls", tls, tlsNames);
  whole("concurrency", concurrency, 1, 100_000);
  whole("bodyBytesMax", bodyBytesMax, 1, 1024 * mib);
  duration("bodyMsMax", bodyMsMax, 1);
  duration("deadlineMsMax", deadlineMsMax, 1, 24 * hourMs);
  duration("graceMs", graceMs);
  duration("leaseMs", leaseMs, leaseMsMin, leaseMsMax);
  duration("retentionMs", retentionMs, 1);
  const nodes = codeOf(nodesOf(options.nodes), settings);
  if (nodes.size === 0) throw new InvalidInputError("nodes", "is empty; add the nodes that this server runs");
  for (const [field, given] of Object.entries({ manifest, settings })) checkKnownNodes(field, given, nodes);
  for (const description of Object.values(manifest)) knownOptions("NodeServer: manifest", description, descriptionNames);
  if (!isLoopback(host) && token === undefined && tls?.clientCa === undefined && options.allowUnauthenticated !== true)
    throw new ConfigurationError(
      `[onceflow] refusing to listen on ${host} without a token: any program on the network could call the nodes. Set \`token\` or \`tls.clientCa\`, ` +
        "use host 127.0.0.1, or set `allowUnauthenticated` if the network itself is trusted",
      { code: "TOKEN_MISSING" },
    );
  return {
    ...{ nodes, descriptions: new Map(Object.entries(manifest)), settings, host, port, grpcPort, token, tls },
    ...{ concurrency, bodyBytesMax, bodyMsMax, deadlineMsMax, graceMs, leaseMs, retentionMs },
  };
}

/** A ready-made node has one group of settings here: those of this server. */
function codeOf(
  given: ReadonlyMap<string, GivenNode>,
  settings: NonNullable<NodeServerOptions["settings"]>,
): ReadonlyMap<string, FlowNode> {
  return new Map([...given].map(([name, node]) => [name, node instanceof NodeType ? node.node(settings[name] ?? {}) : node]));
}

function checkKnownNodes(field: string, given: object, nodes: ReadonlyMap<string, FlowNode>): void {
  for (const name of Object.keys(given))
    if (!nodes.has(name))
      throw new InvalidInputError(`${field}.${name}`, `is not a node of this server; nodes: ${[...nodes.keys()].join(", ")}`);
}

/** The options of node:https and node:tls for these certificates. */
export function secureOptions({ cert, key, clientCa }: NodeServerTls): SecureContextOptions & { readonly requestCert?: boolean } {
  return { cert, key, ...(clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: true }) };
}
