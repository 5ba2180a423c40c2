/** Nodes in other processes: a server for nodes, and nodes that call one. */

export { NodeServer } from "../../ambient/node-server.js";
export { NodeClient } from "../../graph/remote/client/node-client.js";
export type { NodeClientOptions, NodeClientTls } from "../../graph/remote/client/options.js";
export { remoteNode } from "../../graph/remote/client/own-client.js";
export type { RemoteNodeOptions } from "../../graph/remote/client/remote-node.js";
export type { NodeHealth } from "../../graph/remote/client/transport.js";
export {
  type LoadedRegistry,
  loadRegistry,
  type NodeRegistry,
  type RegistryNode,
  type RegistryServer,
} from "../../graph/remote/registry/load-registry.js";
export type { Manifest } from "../../graph/remote/server/manifest.js";
export type { NodeServerUrls } from "../../graph/remote/server/node-server.js";
export type { NodeDescription, NodeServerOptions, NodeServerTls } from "../../graph/remote/server/options.js";
