import type { Table } from "../driver.js";

/** With all that the driver tries by itself. It may have no bound of its own: a server that never answers must hold nobody up. */
const requestMsMax = 10_000;

/**
 * The client, with a deadline for every request. It is not aborted: whether it was done is not known either way, and with a
 * signal the driver would put its layers together anew for each request, which is a third of its time.
 */
export function bounded(client: Table["client"]): Table["client"] {
  const send = (command: never) => inTime(client.send(command));
  return { send: send as Table["client"]["send"] };
}

async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(`no answer within ${requestMsMax} ms`)), requestMsMax);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** As the driver calls its own. */
class TimeoutError extends Error {
  override readonly name = "TimeoutError";
}
