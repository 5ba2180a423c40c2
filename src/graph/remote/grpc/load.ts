import type * as Grpc from "@grpc/grpc-js";
import type * as ProtoLoader from "@grpc/proto-loader";
import { ConfigurationError } from "../../../core/errors/errors.js";
import { requireOptional } from "../../../core/work/own-url.js";
import { descriptor } from "./descriptor.js";

export interface LoadedGrpc {
  readonly grpc: typeof Grpc;
  /** The service `flowdsl.node.v1.NodeService`. */
  readonly service: Grpc.ServiceDefinition;
}

let loaded: LoadedGrpc | undefined;

/** Loads the packages for gRPC, which are optional. Throws ConfigurationError (`MISSING_PACKAGE`) that names the command to install them. */
export function loadGrpc(): LoadedGrpc {
  loaded ??= load();
  return loaded;
}

function load(): LoadedGrpc {
  const { grpc, loader } = packages();
  const definitions = loader.fromJSON(JSON.parse(descriptor), { longs: Number, enums: String, defaults: true, oneofs: true });
  return { grpc, service: definitions["flowdsl.node.v1.NodeService"] as Grpc.ServiceDefinition };
}

function packages(): { readonly grpc: typeof Grpc; readonly loader: typeof ProtoLoader } {
  try {
    return {
      grpc: requireOptional("@grpc/grpc-js") as typeof Grpc,
      loader: requireOptional("@grpc/proto-loader") as typeof ProtoLoader,
    };
  } catch (cause) {
    throw new ConfigurationError("[onceflow] nodes over gRPC require two packages: npm install @grpc/grpc-js @grpc/proto-loader", {
      code: "MISSING_PACKAGE",
      cause,
    });
  }
}
