import { InvalidInputError } from "../core/errors/errors.js";
import type { Handled } from "./handled.js";
import { copyOf } from "./identity.js";
import type { Message } from "./message.js";
import type { Task, Unkeyed } from "./task.js";

const batchMax = 10_000;
/** Retry delay of a message for which the store failed. */
const storeFailedMs = 1000;

/**
 * Handles a batch. All messages begin in one write of the store; each has its own outcome; copies share the outcome of the
 * first copy. Messages for which the store fails are returned with status `retry`; if it fails for all, the error is thrown.
 */
export async function handleAll(
  tasks: readonly (() => Task | Unkeyed)[],
  handle: (task: Task | Unkeyed) => Promise<Handled>,
): Promise<Handled[]> {
  const first = new Map<string, Promise<Handled>>();
  const all = tasks.map(async (make) => {
    const task = make();
    const id = copyOf(task);
    const known = first.get(id);
    if (known !== undefined) return asCopy(await known);
    const one = handle(task);
    first.set(id, one);
    return await one;
  });
  const settled = await Promise.allSettled(all);
  const failed = settled.find((one) => one.status === "rejected");
  if (failed !== undefined && settled.every(({ status }) => status === "rejected")) throw failed.reason;
  return settled.map((one) =>
    one.status === "fulfilled" ? one.value : { status: "retry", error: one.reason, attempt: 0, afterMs: storeFailedMs },
  );
}

function asCopy(handled: Handled): Handled {
  return handled.status === "processed" ? { status: "duplicate", result: handled.result } : handled;
}

export function checkBatch(messages: readonly Message[]): void {
  if (!Array.isArray(messages)) throw new InvalidInputError("messages", "must be an array");
  if (messages.length > batchMax) throw new InvalidInputError("messages", `must be at most ${batchMax}, not ${messages.length}`);
}
