import { InvalidInputError } from "../../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../../core/errors/known-options.js";
import { duration } from "../../../core/ledger/options.js";
import { BaseNode, type NodeInput, type NodeOutput } from "../../node/node.js";
import { callMsMax } from "./options.js";

/** How one node of a server is called. */
export interface RemoteNodeOptions {
  /** The operationId of the node on the server. */
  readonly operationId: string;
  /** Time limit of a call. Default: that of the client. */
  readonly timeoutMs?: number;
  /** True: packets are received as the node sends them (InvokeStream, application/x-ndjson). They count when the node has ended. */
  readonly streaming?: boolean;
}

const optionNames: OptionNames<RemoteNodeOptions> = { operationId: true, timeoutMs: true, streaming: true };

/** A node that runs in another process. A batch is one call for each packet. */
export class RemoteNode extends BaseNode {
  readonly operationId: string;
  readonly #options: RemoteNodeOptions;
  readonly #invoke: (input: NodeInput, options: RemoteNodeOptions) => Promise<NodeOutput>;

  constructor(options: RemoteNodeOptions, invoke: (input: NodeInput, options: RemoteNodeOptions) => Promise<NodeOutput>) {
    super();
    knownOptions("remote node", options, optionNames);
    const { operationId, timeoutMs } = options;
    if (typeof operationId !== "string" || operationId === "") throw new InvalidInputError("operationId", "must name a node of the server");
    if (timeoutMs !== undefined) duration("timeoutMs", timeoutMs, 1, callMsMax);
    this.operationId = operationId;
    this.#options = options;
    this.#invoke = invoke;
  }

  handle(input: NodeInput): Promise<NodeOutput> {
    return this.#invoke(input, this.#options);
  }
}
