import { codeOf } from "../errors.js";

const triesMax = 20;

/** Repeats a statement that stands alone while it cannot be serialized, or is the victim of a deadlock: nothing was written. */
export async function sentAgain<T>(send: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await send();
    } catch (error) {
      if (tries === triesMax || !/^(40001|40P01)$/.test(codeOf(error))) throw error;
      // Spread out, so that those who met do not meet again.
      await new Promise((again) => setTimeout(again, Math.random() * Math.min(2 ** tries, 50)));
    }
  }
}
