import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { configure, open } from "onceflow";
import { work } from "onceflow/workflow";

/** Shared by both apps: opens the store, starts a worker (which also takes over runs of an earlier process), and shuts down. */
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
