import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import type { Store } from "onceflow";
import { type ApiRole, createApi } from "onceflow/server";

interface ApiServerOptions {
  readonly token: string;
  readonly port?: number;
  readonly roles?: readonly ApiRole[];
  readonly bodyBytesMax?: number;
}

export interface ApiServer {
  readonly port: number;
  close(): Promise<void>;
}

/** Serves createApi below /onceflow on loopback, for one sender: the one with the token. */
export async function serveApi(store: Store, options: ApiServerOptions): Promise<ApiServer> {
  const { token, port = 0, roles = ["work", "values"], ...more } = options;
  const authorize = (request: Request) =>
    request.headers.get("authorization") === `Bearer ${token}` ? { actor: "client", roles, scopes: "*" as const } : null;
  const server = createAdaptorServer({ fetch: createApi({ store, authorize, path: "/onceflow", ...more }) }) as Server;
  await new Promise<void>((listening) => server.listen(port, "127.0.0.1", listening));
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}
