import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A running proxy, as `cuttingProxy` returns it. */
export interface CuttingProxy {
  /** The port on 127.0.0.1 to connect to instead of the server's. */
  readonly port: number;
  /**
   * Cuts every connection at the next reply or request. `"reply"`: the server has executed the request, and the client does
   * not receive the reply. `"request"`: the server does not receive the request. With `after`, that many replies or requests
   * pass first.
   */
  cutNext(what: "reply" | "request", after?: number): void;
  /** Cuts every connection now, even in the middle of a request or a reply. */
  cutAll(): void;
  /** Number of cuts so far. */
  readonly cuts: number;
  /** Number of chunks of replies that reached a client. */
  readonly replies: number;
  /** Closes the proxy and all of its connections. */
  close(): Promise<void>;
}

/**
 * Starts a TCP proxy on loopback that cuts connections on demand, to test a store that reaches its database over a network.
 *
 * @example
 * const proxy = await cuttingProxy({ host: "127.0.0.1", port: 5432 });
 * const store = await open(`postgres://127.0.0.1:${proxy.port}/test`);
 * proxy.cutNext("reply"); // the next write is committed, and its reply is lost
 */
export async function cuttingProxy(target: { readonly host: string; readonly port: number }): Promise<CuttingProxy> {
  let cutting: "reply" | "request" | undefined;
  let cuts = 0;
  let spared = 0;
  let replies = 0;
  const sockets = new Set<Socket>();
  const cut = () => {
    cutting = undefined;
    cuts += 1;
    for (const socket of sockets) socket.destroy();
  };
  const isNext = (what: "reply" | "request") => {
    if (cutting !== what) return false;
    spared -= 1;
    return spared < 0;
  };
  const server = createServer((client) => {
    const upstream = connect(target);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on("data", (chunk) => (isNext("request") ? cut() : upstream.write(chunk)));
    upstream.on("data", (chunk) => {
      if (isNext("reply")) return cut();
      replies += 1;
      client.write(chunk);
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    port: (server.address() as AddressInfo).port,
    cutNext(what, after = 0) {
      cutting = what;
      spared = after;
    },
    cutAll: cut,
    get cuts() {
      return cuts;
    },
    get replies() {
      return replies;
    },
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
