import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface ForgetfulPooler {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * A proxy in front of PostgreSQL that makes `SET SESSION CHARACTERISTICS` a statement without effect, as a pooler in
 * transaction mode does: the next statement may go through another session of the server.
 */
export async function forgetfulPooler(target: { readonly host: string; readonly port: number }): Promise<ForgetfulPooler> {
  const sockets = new Set<Socket>();
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
    client.on("data", (chunk) => upstream.write(forgotten(chunk)));
    upstream.on("data", (chunk) => client.write(chunk));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((closed) => server.close(closed));
    },
  };
}

/** As long as the statement that it replaces: lengths stand in the protocol's messages. */
function forgotten(chunk: Buffer): Buffer {
  const from = chunk.indexOf("SET SESSION CHARACTERISTICS");
  if (from === -1) return chunk;
  const to = chunk.indexOf(0, from);
  return Buffer.concat([chunk.subarray(0, from), Buffer.from("SELECT 1".padEnd(to - from)), chunk.subarray(to)]);
}
