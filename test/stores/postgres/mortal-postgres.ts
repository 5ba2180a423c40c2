import type { TestContext } from "vitest";
import { letTimePass } from "../../kit/real-time.js";
import { acquire } from "../../servers/acquire.js";

export interface MortalPostgres {
  readonly url: string;
  /** Kills the server and starts it again. After three restarts it does nothing. */
  readonly strike: () => Promise<void>;
  readonly restarts: () => number;
}

/** A server that belongs to the test, which can kill it. */
export async function mortalPostgres({ skip, onTestFinished }: TestContext): Promise<MortalPostgres> {
  const acquired = await acquire("postgres");
  if (!acquired.ok) return skip(acquired.reason);
  const { url, kill, restart, stop } = acquired.running;
  if (kill === undefined || restart === undefined) return skip("the tests did not start this server, so they cannot kill it");
  onTestFinished(() => stop());
  let restarts = 0;
  const strike = async () => {
    if (restarts === 3) return;
    restarts += 1;
    await kill();
    await letTimePass(150, "the server is down for a while");
    await restart();
  };
  return { url, strike, restarts: () => restarts };
}
