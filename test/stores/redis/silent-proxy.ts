import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface SilentProxy {
  readonly port: number;
  /** The number of connections made so far. */
  readonly connections: number;
  /** Keeps all current connections open but forwards nothing on them any more. New connections work. */
  silence(): void;
  close(): Promise<void>;
}

/** A TCP proxy on loopback that simulates a peer that vanished without closing its connections. */
export async function silentProxy(port: number): Promise<SilentProxy> {
  const sockets = new Set<Socket>();
  let connections = 0;
  let silenced = 0;
  const server = createServer((client) => {
    connections += 1;
    const number = connections;
    const upstream = connect(port, "127.0.0.1");
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      from.on("error", () => {});
      from.on("data", (chunk) => void (number > silenced && to.write(chunk)));
      from.on("close", () => {
        sockets.delete(from);
        if (number > silenced) to.destroy();
      });
    }
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections;
    },
    silence() {
      silenced = connections;
    },
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
