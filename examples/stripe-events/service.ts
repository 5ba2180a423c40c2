import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { configure, open } from "onceflow";
import { work } from "onceflow/workflow";

/** What both apps do around their routes: a store, a worker that also takes over what an earlier process left, an end. */
export async function serveWith(listen: (port: number, hostname: string) => Server): Promise<void> {
  const store = await open(process.env["ONCEFLOW_URL"] ?? "sqlite:./onceflow.db");
  configure({ store });
  const worker = await work(store);
  const server = listen(Number(process.env["PORT"] ?? 3000), "127.0.0.1");
  server.once("listening", () => console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`));
  process.once("SIGTERM", async () => {
    server.close();
    server.closeIdleConnections();
    await worker.stop();
    await store.close();
  });
}
