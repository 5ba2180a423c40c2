import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface CuttingProxy {
  readonly port: number;
  /**
   * The next request goes through to the server, and every connection is cut when its reply comes back: it was done,
   * and nobody was told. "request": the connection is cut before the server sees it. `after` so many others.
   */
  cutNext(what: "reply" | "request", after?: number): void;
  /** Cuts every connection now, in the middle of whatever goes through it. */
  cutAll(): void;
  /** How many replies and requests were cut. */
  readonly cuts: number;
  /** How many chunks of replies went through. */
  readonly replies: number;
  close(): Promise<void>;
}

/** A TCP proxy on loopback that loses what it is told to lose. For stores behind a connection. */
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
