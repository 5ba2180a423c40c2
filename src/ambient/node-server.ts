import { createStore } from "../core/store/create-store.js";
import type { Manifest } from "../graph/remote/server/manifest.js";
import { type NodeServerUrls, ServingNodes } from "../graph/remote/server/node-server.js";
import { checkNodeServerOptions, type NodeServerOptions } from "../graph/remote/server/options.js";
import { boundedMemoryBackend } from "../stores/memory/bounded.js";

const keptAnswersMax = 100_000;

/**
 * Serves nodes to runtimes in other processes, over HTTP and gRPC. Keeps the answer of each idempotency key in a store: a repeated
 * invocation gets the kept answer, and the node is not called. The constructor throws InvalidInputError for wrong options, and
 * ConfigurationError (`TOKEN_MISSING`) for an address other than loopback without a token or client certificates.
 *
 * @example
 * const server = new NodeServer({ nodes: { charge_payment: charge }, store: await open("sqlite:answers.db"), port: 4100 });
 * const { http } = await server.start();
 * process.once("SIGTERM", () => void server.stop());
 */
export class NodeServer {
  readonly #serving: ServingNodes;
  readonly #closeStore: () => Promise<void>;

  constructor(options: NodeServerOptions) {
    const policy = checkNodeServerOptions(options);
    const own = options.store === undefined ? memoryStore(policy.bodyBytesMax) : undefined;
    this.#closeStore = async () => await own?.close();
    this.#serving = new ServingNodes(options.store ?? (own as NonNullable<typeof own>), policy);
  }

  /**
   * Initialises the nodes and listens. Resolves with the URLs. Throws ConfigurationError: `CANNOT_LISTEN` (port in use, for
   * example), `MISSING_PACKAGE` (gRPC without @grpc/grpc-js).
   */
  start(): Promise<NodeServerUrls> {
    return this.#serving.start();
  }

  /** The nodes of this server, as runtimes see them. */
  get manifest(): Manifest {
    return this.#serving.manifest;
  }

  /** Number of invocations that run or wait now. */
  get inFlight(): number {
    return this.#serving.inFlight;
  }

  /**
   * Refuses new invocations, waits up to `graceMs` (default: the option) for running ones, and closes the ports. A store that was
   * passed as an option stays open.
   */
  async stop({ graceMs }: { readonly graceMs?: number } = {}): Promise<void> {
    await this.#serving.stop(graceMs);
    await this.#closeStore();
  }
}

/** Large enough for the largest answer that a caller accepts. */
function memoryStore(bodyBytesMax: number) {
  return createStore(boundedMemoryBackend(keptAnswersMax), { valueBytesMax: 2 * bodyBytesMax });
}
