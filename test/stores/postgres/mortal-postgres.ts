import type { TestContext } from "vitest";
import { letTimePass } from "../../kit/real-time.js";
import { acquire } from "../../servers/acquire.js";

export interface MortalPostgres {
  readonly url: string;
  /** Kills it and starts it again, three times at most. */
  readonly strike: () => Promise<void>;
  readonly restarts: () => number;
}

/** A server of the test's own, which it can kill. */
export async function mortalPostgres({ skip, onTestFinished }: TestContext): Promise<MortalPostgres> {
  const acquired = await acquire("postgres");
  if (!acquired.ok) return skip(acquired.reason);
  const { url, kill, restart, stop } = acquired.running;
  if (kill === undefined || restart === undefined) return skip("this server is not ours to kill");
  onTestFinished(() => stop());
  let restarts = 0;
  const strike = async () => {
    if (restarts === 3) return;
    restarts += 1;
    await kill();
    await letTimePass(150, "the server is away for a while");
    await restart();
  };
  return { url, strike, restarts: () => restarts };
}
