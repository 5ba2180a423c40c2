import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import type { Store } from "onceflow";
import { createApi } from "onceflow/server";

/** A real server of the HTTP API of a store, whose callers with the token may do everything. */
export async function serveApi(store: Store, token = "t-1"): Promise<{ readonly url: string; close(): Promise<void> }> {
  const api = createApi({
    store,
    authorize: (request) =>
      request.headers.get("authorization") === `Bearer ${token}`
        ? { actor: "ada", roles: ["view", "work", "operate", "values"], scopes: "*" }
        : null,
  });
  const server = createAdaptorServer({ fetch: api });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        if ("closeAllConnections" in server) server.closeAllConnections();
      }),
  };
}
