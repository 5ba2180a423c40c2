import { setTimeout as delay } from "node:timers/promises";

/**
 * Lets real time pass. A test uses this only where no condition, gate or virtual clock can take its place; `reason` says
 * why. The lint refuses other timers in test files.
 */
export async function letTimePass(ms: number, reason: string): Promise<void> {
  if (reason === "") throw new Error("letTimePass needs a reason");
  await delay(ms);
}
