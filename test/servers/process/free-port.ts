import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/** Below what systems give to outgoing connections: one of those would have the port while its server is started again. */
export const portRange = { from: 10_240, to: 32_768 } as const;

/** A port of the loopback address that was free a moment ago: who uses it must be ready to hear that it no longer is. */
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
