import { InvalidInputError } from "../core/errors/errors.js";
import type { Handled } from "./handled.js";
import { copyOf } from "./identity.js";
import type { Message } from "./message.js";
import type { Task, Unkeyed } from "./task.js";

const batchMax = 10_000;
/** When to come again where the store has failed. */
const storeFailedMs = 1000;

/**
 * All begin in one write of the store, each has its own outcome, and copies share that of the first among them. Where the
 * store fails for some only, those are to come again; where it fails for all, it throws.
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
  if (messages.length > batchMax) throw new InvalidInputError("messages", `are ${messages.length}; a batch has ${batchMax} at most`);
}
