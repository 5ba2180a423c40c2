import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import express, { type RequestHandler } from "express";

/** An app with one route, which only answers. */
export async function serveShop(middleware?: RequestHandler): Promise<{ readonly url: string; readonly close: () => Promise<void> }> {
  const app = express();
  app.use(express.json());
  if (middleware) app.use(middleware);
  let made = 0;
  app.post("/orders", (req, res) => {
    made += 1;
    res.status(201).send(JSON.stringify({ id: `order-${made}`, amount: req.body.amount }));
  });
  const server = createServer(app);
  await new Promise<void>((ready) => void server.listen(0, "127.0.0.1", ready));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/orders`,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}
