import { setTimeout as delay } from "node:timers/promises";

/** Calls `ask` until it returns a value. Throws with the message of `late` if that takes longer than the bound. */
export async function poll<T>(boundMs: number, ask: () => Promise<T | undefined> | T | undefined, late: () => string): Promise<T> {
  const deadline = performance.now() + boundMs;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    if (performance.now() > deadline) throw new Error(late());
    await delay(25);
  }
}
