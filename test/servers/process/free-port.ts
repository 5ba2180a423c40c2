import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/** Below the range that systems use for outgoing connections: one of those could take the port of a server while it restarts. */
export const portRange = { from: 10_240, to: 32_768 } as const;

/** A loopback port that was free a moment ago. The caller must handle that another process takes it first. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(portRange.from, portRange.to);
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => (error.code === "EADDRINUSE" ? resolve(false) : reject(error)));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
