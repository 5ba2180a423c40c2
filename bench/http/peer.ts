import { Idempotency } from "@node-idempotency/core";
import type { RequestHandler } from "express";
import { createClient } from "redis";

/** The type is taken from here because its package is a dependency of the peer, not of this package. */
type StorageAdapter = ConstructorParameters<typeof Idempotency>[0];

/**
 * A middleware around @node-idempotency/core, built like its own plugins: a lock by SET NX, the response by SET, a hash of the
 * body. It has no leases (a process that dies leaves 409 until the key expires) and no fence. Its plugins do not wait until the
 * response is stored before they send it; this middleware waits, like ours.
 */
export async function peer(url: string): Promise<{ readonly middleware: RequestHandler; readonly close: () => Promise<void> }> {
  const client = createClient({ url });
  await client.connect();
  const storage: StorageAdapter = {
    setIfNotExists: async (key, value, options) => (await client.set(key, value, { PX: options?.ttl ?? 60_000, NX: true })) === "OK",
    set: async (key, value, options) => void (await client.set(key, value, { PX: options?.ttl ?? 60_000 })),
    get: async (key) => (await client.get(key)) ?? undefined,
  };
  const idempotency = new Idempotency(storage, { cacheKeyPrefix: "peer", cacheTTLMS: 86_400_000 });
  const middleware: RequestHandler = (req, res, next) => {
    const { headers, path, method, body } = req;
    const asked = { headers, path, method, body: body as Record<string, unknown> };
    idempotency.onRequest<string, never>(asked).then((stored) => {
      if (stored) return void res.status(Number(stored.additional?.["statusCode"])).send(stored.body);
      const send = res.send.bind(res);
      res.send = (sent: unknown) => {
        res.send = send;
        const done = () => void send(sent);
        void idempotency.onResponse(asked, { body: sent as string, additional: { statusCode: res.statusCode } }).then(done, next);
        return res;
      };
      next();
    }, next);
  };
  return { middleware, close: async () => client.destroy() };
}
