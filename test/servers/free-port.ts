import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";

/** A port of the loopback address that was free a moment ago: who uses it must be ready to hear that it no longer is. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
