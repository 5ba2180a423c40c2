import { Idempotency } from "@node-idempotency/core";
import type { RequestHandler } from "express";
import { createClient } from "redis";

/** The package that has this type is a dependency of the peer, not of ours. */
type StorageAdapter = ConstructorParameters<typeof Idempotency>[0];

/**
 * A middleware around @node-idempotency/core, as its own plugins are made: a lock by SET NX, the response by SET, a hash of
 * the body. It has no leases (who dies leaves 409 until the key expires), no fence, and does not wait for the response to
 * be stored before it is sent; here it does, as ours does.
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
