import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { ConfigurationError, InvalidInputError } from "../../../core/errors/errors.js";
import { findingText } from "../../findings/finding.js";
import type { FlowSource } from "../../load/load-flows.js";
import type { BaseNode } from "../../node/node.js";
import type { FlowPlan, PlannedNode } from "../../plan/plan.js";
import { NodeClient } from "../client/node-client.js";
import type { NodeClientOptions } from "../client/options.js";
import { addressOf } from "./document-address.js";
import { loadRegistry, type NodeRegistry, type RegistryServer } from "./load-registry.js";
import { edgeWithOtherProtocol, misspeltEntries } from "./registry-problems.js";

/** A node server that this runtime calls, and the nodes that it should have. */
export interface RemoteServer {
  readonly client: NodeClient;
  readonly nodes: Set<PlannedNode>;
}

/**
 * The nodes of a runtime that are in other processes. For each node: the registry's server, else the address in the document.
 * Nodes with the same address and token share one client.
 */
export class RemoteNodes {
  readonly #registry: NodeRegistry | undefined;
  /** By path. */
  readonly #certificates: ReadonlyMap<string, string>;
  readonly #servers = new Map<string, RemoteServer>();
  readonly #work = new Map<PlannedNode, BaseNode | undefined>();

  private constructor(registry: NodeRegistry | undefined, certificates: ReadonlyMap<string, string>) {
    this.#registry = registry;
    this.#certificates = certificates;
  }

  /** Throws ConfigurationError (`REGISTRY_INVALID`) if the registry or a certificate cannot be read. */
  static async open(source: FlowSource | undefined): Promise<RemoteNodes> {
    if (source === undefined) return new RemoteNodes(undefined, new Map());
    const { ok, registry, findings } = await loadRegistry(source);
    const errors = findings.filter(({ severity }) => severity === "error").map(findingText);
    if (!ok) throw invalid(`the registry of nodes cannot be used:\n${errors.join("\n")}`);
    return new RemoteNodes(registry, await readCertificates(registry));
  }

  get servers(): readonly RemoteServer[] {
    return [...this.#servers.values()];
  }

  /** Undefined: neither the registry nor the document says where the node is. */
  workOf(node: PlannedNode): BaseNode | undefined {
    if (!this.#work.has(node)) this.#work.set(node, this.#make(node));
    return this.#work.get(node);
  }

  misspelt(operationIds: ReadonlySet<string>): readonly string[] {
    return misspeltEntries({ nodes: this.#registry?.nodes ?? new Map() }, operationIds).map(
      ({ operationId, place: { file, line, column }, meant }) =>
        `the registry has node "${operationId}" (${file}:${line}:${column}), which no document has; did you mean "${meant}"?`,
    );
  }

  close(): void {
    for (const { client } of this.#servers.values()) client.close();
  }

  #make(node: PlannedNode): BaseNode | undefined {
    const { operationId } = node;
    const listed = this.#registry?.nodes.get(operationId);
    if (listed !== undefined) {
      const { server, timeoutMs = server.timeoutMs, streaming = server.streaming } = listed;
      checkProtocol(node, server);
      const remote = this.#server(`registry ${server.place.pointer}`, node, () => clientOptionsOf(server, this.#certificates));
      return remote.client.node(operationId, {
        ...(timeoutMs !== undefined && { timeoutMs }),
        ...(streaming !== undefined && { streaming }),
      });
    }
    const address = addressOf(node);
    if (address === undefined) return undefined;
    const { streaming, tokenEnv, ...options } = address;
    const token = tokenEnv === undefined ? {} : { token: tokenOf(tokenEnv, `node "${node.id}"`) };
    const remote = this.#server(`document ${JSON.stringify([options, tokenEnv])}`, node, () => ({ ...options, ...token }));
    return remote.client.node(operationId, streaming === undefined ? {} : { streaming });
  }

  #server(name: string, node: PlannedNode, options: () => NodeClientOptions): RemoteServer {
    let server = this.#servers.get(name);
    if (server === undefined) {
      server = { client: clientOf(options(), node), nodes: new Set() };
      this.#servers.set(name, server);
    }
    server.nodes.add(node);
    return server;
  }
}

/** The options of a server's client. `certificates`: by path. Throws ConfigurationError if the token is not set. */
export function clientOptionsOf(server: RegistryServer, certificates: ReadonlyMap<string, string>): NodeClientOptions {
  const { url, tokenEnv, tlsCa, tlsCert, tlsKey, tlsServerName, concurrency, queueMax } = server;
  const { file } = server.place;
  const pem = (name: string) => certificates.get(pathOf(file, name)) as string;
  const tls = {
    ...(tlsCa !== undefined && { ca: pem(tlsCa) }),
    ...(tlsCert !== undefined && { cert: pem(tlsCert) }),
    ...(tlsKey !== undefined && { key: pem(tlsKey) }),
    ...(tlsServerName !== undefined && { serverName: tlsServerName }),
  };
  return {
    url,
    ...(tokenEnv !== undefined && { token: tokenOf(tokenEnv, `server "${server.name}" of ${file}`) }),
    ...(Object.keys(tls).length > 0 && { tls }),
    ...(concurrency !== undefined && { concurrency }),
    ...(queueMax !== undefined && { queueMax }),
  };
}

const invalid = (message: string, cause?: unknown): ConfigurationError =>
  new ConfigurationError(`[onceflow] ${message}`, { code: "REGISTRY_INVALID", cause });

/** An option that only the client can check. */
function clientOf(options: NodeClientOptions, { id, place }: PlannedNode): NodeClient {
  try {
    return new NodeClient(options);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    throw invalid(`node "${id}" (${place.file}:${place.line}:${place.column}) has a wrong address: ${error.message}`, error);
  }
}

/** Throws if an edge asks for another protocol than that of the server. */
function checkProtocol(node: PlannedNode, server: RegistryServer): void {
  const edge = edgeWithOtherProtocol(node, server);
  if (edge === undefined) return;
  const { file, line, column } = server.place;
  throw invalid(
    `edge "${edge.id}" asks for protocol ${edge.protocol}, but the registry has node "${node.id}" over another one ` +
      `(${file}:${line}:${column}); change one of the two`,
  );
}

function tokenOf(name: string, what: string): string {
  const token = process.env[name];
  if (token !== undefined && token !== "") return token;
  throw invalid(`the environment variable ${name}, the token of ${what}, is not set`);
}

const pathOf = (registry: string, name: string): string => resolve(dirname(registry), name);

/** The PEM files that a registry names, by path. Throws ConfigurationError (`REGISTRY_INVALID`). */
export async function readCertificates({ file, servers }: NodeRegistry): Promise<ReadonlyMap<string, string>> {
  const files = new Map<string, string>();
  for (const { name, tlsCa, tlsCert, tlsKey } of servers)
    for (const given of [tlsCa, tlsCert, tlsKey]) {
      if (given === undefined) continue;
      const path = pathOf(file, given);
      try {
        files.set(path, await readFile(path, "utf8"));
      } catch (error) {
        throw invalid(`server "${name}" of ${file}: ${given} cannot be read (${(error as NodeJS.ErrnoException).code ?? "error"})`, error);
      }
    }
  return files;
}

/** All plans whose nodes this process may call: those that it delivers to, and flows that a trigger runs at once. */
export function callsNodes(plan: FlowPlan, works: boolean): boolean {
  return works || plan.entries.some(({ delivery }) => delivery.mode === "direct");
}
