import { IdempotencyConfig, makeIdempotent } from "@aws-lambda-powertools/idempotency";
import { CachePersistenceLayer } from "@aws-lambda-powertools/idempotency/cache";
import { createClient } from "@redis/client";

/** As the guide of Powertools shows it: a function that is idempotent by its first argument, on one connection. */
export async function open(url, result) {
  const client = createClient({ url });
  await client.connect();
  const config = new IdempotencyConfig({});
  // Without this, every call would print a warning that the remaining time is not known.
  config.registerLambdaContext({ getRemainingTimeInMillis: () => 10_000 });
  const persistenceStore = new CachePersistenceLayer({ client });
  const work = makeIdempotent(async () => result, { persistenceStore, config });
  return { work: (key) => work({ key }), close: () => client.close() };
}
