import { open } from "onceflow";
import { createInbox, type MessageHandler, PermanentError } from "onceflow/inbox";
import type { CrashPoint } from "onceflow/testing";
import { withCrashPoint } from "../../../src/testing/crash-point.js";

/** Handles, retries or discards a message, and kills itself with SIGKILL at `dieAt`. Without a crash it prints the result. */
export interface InboxDoom {
  readonly url: string;
  readonly providerUrl: string;
  readonly act: "handle" | "batch" | "retry" | "discard";
  readonly dieAt?: CrashPoint | "before call" | "after call";
  /** What the handler does after the call. */
  readonly then?: "succeeds" | "fails" | "kills";
  readonly tx?: boolean;
}

export const message = { id: "m-1", payload: { order: "o-1" } };
export const batch = ["o-1", "o-2", "o-3", "o-4"].map((order) => ({ id: order, payload: { order } }));

export function inboxOptions(tx = false) {
  const key = ({ payload }: { readonly payload: unknown }) => (payload as { order: string }).order;
  return { consumer: "killed", key, leaseMs: 300, attemptsMax: 2, concurrency: 1, ...(tx ? { tx: true as const } : {}) };
}

/** Calls the provider, or writes a row. Of a batch only the third message kills the process. */
export function handlerOf({ providerUrl, dieAt, then = "succeeds", act }: Omit<InboxDoom, "url">, die: () => void) {
  const handler: MessageHandler<{ order: string }, { attempt: number }> = async ({ payload }, { attempt, effectKey, tx }) => {
    const doomed = act !== "batch" || payload.order === "o-3";
    if (doomed && dieAt === "before call") die();
    if (tx !== undefined) await insertRow(tx, attempt);
    else await fetch(providerUrl, { method: "POST", headers: { "idempotency-key": effectKey, "x-attempt": String(attempt) } });
    if ((doomed && dieAt === "after call") || then === "kills") die();
    if (then === "fails") throw new PermanentError("declined");
    return { attempt };
  };
  return handler;
}

async function insertRow(handle: object, attempt: number): Promise<void> {
  if ("prepare" in handle)
    (handle as { prepare(sql: string): { run(n: number): void } }).prepare("INSERT INTO business VALUES (?)").run(attempt);
  else await (handle as { query(sql: string, values: number[]): Promise<void> }).query("INSERT INTO business VALUES ($1)", [attempt]);
}

const given = process.argv[2];
if (given !== undefined && import.meta.filename === process.argv[1]) {
  const doom = JSON.parse(given) as InboxDoom;
  const die = () => process.kill(process.pid, "SIGKILL");
  const { url, dieAt, act, tx } = doom;
  const opened = await open(url, { stallMsMax: 0 });
  const store = dieAt === undefined || dieAt.endsWith("call") ? opened : withCrashPoint(opened, dieAt as CrashPoint, die);
  const inbox = createInbox(store, inboxOptions(tx));
  const handler = handlerOf(doom, die);
  const acts = {
    handle: () => inbox.handle(message, handler),
    batch: () => inbox.handleBatch(batch, handler),
    retry: () => inbox.retry("o-1", handler),
    discard: () => inbox.discard("o-1"),
  };
  console.log(JSON.stringify((await acts[act]()) ?? null));
  await opened.close();
}
