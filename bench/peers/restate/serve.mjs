import { once } from "node:events";
import { createServer } from "node:http2";
import { createEndpointHandler } from "@restatedev/restate-sdk";

/** Serves the services for the server. Returns the URL to register, which is valid as long as the thread lives. */
export async function serve(services) {
  const handler = createEndpointHandler({ services, logger: () => {} });
  const endpoint = createServer({ settings: { maxConcurrentStreams: 1000 } }, handler).listen(0, "127.0.0.1");
  await once(endpoint, "listening");
  return `http://127.0.0.1:${endpoint.address().port}`;
}
