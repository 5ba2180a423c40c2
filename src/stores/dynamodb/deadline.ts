import { setMaxListeners } from "node:events";
import type { Sending, Table } from "./driver.js";

/** With all that the driver tries by itself. It may have no bound of its own: a server that never answers must hold nobody up. */
const requestMsMax = 10_000;

/** Whatever is sent with it ends in time. */
export async function withDeadline<T>(work: (sending: Sending) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  // One signal for the many requests of a flush is no leak.
  setMaxListeners(0, controller.signal);
  const tooLong = setTimeout(() => controller.abort(), requestMsMax);
  try {
    return await work({ abortSignal: controller.signal });
  } finally {
    clearTimeout(tooLong);
  }
}

/** The client, with a deadline for every request that is sent without one. */
export function bounded(client: Table["client"]): Table["client"] {
  const send = (command: never, sending?: Sending) =>
    sending === undefined ? withDeadline((own) => client.send(command, own)) : client.send(command, sending);
  return { send: send as Table["client"]["send"] };
}
