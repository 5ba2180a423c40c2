import { MongoClient } from "mongodb";
import { acquire } from "../../servers/acquire.js";

/** A MongoDB of the test's own. */
export type OwnMongo =
  | { readonly ok: true; readonly url: string; strike(): Promise<void>; stop(): Promise<void> }
  | { readonly ok: false; readonly reason: string };

/** How long documents stay locked that a process wrote in a transaction in which it died. The default of a server is a minute. */
const transactionS = 2;

/** Starts a server whose transactions end soon. `strike` kills it and starts it again; a server that was given is not killed. */
export async function ownMongo(): Promise<OwnMongo> {
  const acquired = await acquire("mongodb");
  if (!acquired.ok) return { ok: false, reason: acquired.reason };
  const { url, kill, restart, stop } = acquired.running;
  const configure = async () => {
    const client = new MongoClient(url);
    await client.db("admin").command({ setParameter: 1, transactionLifetimeLimitSeconds: transactionS });
    await client.close();
  };
  await configure();
  return {
    ok: true,
    url,
    stop,
    async strike() {
      if (kill === undefined || restart === undefined) return;
      await kill();
      await restart();
      await configure();
    },
  };
}
