import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Store } from "../../../core/store/store.js";
import { BaseNode } from "../../node/node.js";
import { cannotListen } from "./cannot-listen.js";
import { createHttpServer } from "./http-server.js";
import { Invoker } from "./invoker.js";
import { type Manifest, manifestOf } from "./manifest.js";
import type { NodeServerPolicy } from "./options.js";

/** Where a node server listens. */
export interface NodeServerUrls {
  /** `http://…` or `https://…`. Undefined: the server has no HTTP port. */
  readonly http?: string;
  /** `grpc://…` or `grpcs://…`. Undefined: the server has no gRPC port. */
  readonly grpc?: string;
}

/**
 * new → start → serving → stop → stopped. In `stopping`, health answers 503, new invocations are refused, and running ones have
 * `graceMs` to end.
 */
export class ServingNodes {
  readonly #policy: NodeServerPolicy;
  readonly #invoker: Invoker;
  readonly #closers: (() => Promise<void>)[] = [];
  #starting: Promise<NodeServerUrls> | undefined;
  #stopping: Promise<void> | undefined;

  constructor(store: Store, policy: NodeServerPolicy) {
    this.#policy = policy;
    this.#invoker = new Invoker(store, policy);
  }

  get manifest(): Manifest {
    return manifestOf(this.#policy);
  }

  get inFlight(): number {
    return this.#invoker.inFlight;
  }

  start(): Promise<NodeServerUrls> {
    this.#starting ??= this.#start();
    return this.#starting;
  }

  async #start(): Promise<NodeServerUrls> {
    const { nodes, settings, port, grpcPort, host, tls } = this.#policy;
    for (const [operationId, node] of nodes) if (node instanceof BaseNode) await node.init(settings[operationId] ?? {});
    try {
      const http = port === undefined ? undefined : await this.#listenHttp(port);
      const grpc = grpcPort === undefined ? undefined : await this.#listenGrpc(grpcPort);
      const urlOf = (scheme: string, at: number) =>
        `${scheme}${tls === undefined ? "" : "s"}://${host.includes(":") ? `[${host}]` : host}:${at}`;
      return { ...(http === undefined ? {} : { http: urlOf("http", http) }), ...(grpc === undefined ? {} : { grpc: urlOf("grpc", grpc) }) };
    } catch (error) {
      await Promise.all(this.#closers.map((close) => close()));
      throw error;
    }
  }

  async #listenHttp(port: number): Promise<number> {
    const server = createHttpServer(this.#invoker, this.#policy);
    const address = await listen(server, this.#policy.host, port);
    this.#closers.push(() => closeServer(server));
    return address.port;
  }

  async #listenGrpc(port: number): Promise<number> {
    const { listenGrpc } = await import("./grpc-server.js");
    const server = await listenGrpc(this.#invoker, this.#policy, port);
    this.#closers.push(server.close);
    return server.port;
  }

  stop(graceMs: number = this.#policy.graceMs): Promise<void> {
    this.#stopping ??= this.#stop(graceMs);
    return this.#stopping;
  }

  async #stop(graceMs: number): Promise<void> {
    await this.#starting?.catch(() => {});
    await this.#invoker.stop(graceMs);
    await Promise.all(this.#closers.map((close) => close()));
  }
}

function listen(server: Server, host: string, port: number): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(cannotListen(host, port, error.code ?? error.message, error)));
    server.listen(port, host, () => resolve(server.address() as AddressInfo));
  });
}

/** Answers that are still being sent get a moment; callers that do not read them are cut off. */
const closeMsMax = 1000;

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const late = setTimeout(() => server.closeAllConnections(), closeMsMax);
    server.close(() => {
      clearTimeout(late);
      resolve();
    });
    server.closeIdleConnections();
  });
}
