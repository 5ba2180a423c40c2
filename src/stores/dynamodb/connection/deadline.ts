import type { Table } from "../driver.js";

/** Includes the driver's own retries. The driver may have no limit: a server that never answers must not block callers. */
const requestMsMax = 10_000;

/**
 * Wraps the client so that every request has a deadline. The request is not aborted: its outcome would be unknown anyway, and with an abort
 * signal the driver would build its middleware for each request, which is a third of the request's time.
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

/** Has the name of the driver's own timeout error. */
class TimeoutError extends Error {
  override readonly name = "TimeoutError";
}
