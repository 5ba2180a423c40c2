import type { BaseNode } from "../../node/node.js";
import { NodeClient } from "./node-client.js";
import type { NodeClientOptions } from "./options.js";
import type { RemoteNodeOptions } from "./remote-node.js";

/**
 * A node in another process, with a connection of its own. For several nodes of one server use {@link NodeClient}: they share its
 * connections and its limit. Throws as NodeClient does.
 *
 * @example
 * const nodes = { charge_payment: remoteNode({ operationId: "charge_payment", url: "http://127.0.0.1:4100" }) };
 */
export function remoteNode({ operationId, streaming, ...client }: NodeClientOptions & RemoteNodeOptions): BaseNode {
  return new NodeClient(client).node(operationId, streaming === undefined ? {} : { streaming });
}
