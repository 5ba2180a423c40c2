import { NotKnownError } from "../../../core/errors/errors.js";
import { explain } from "../errors.js";

/** Longer than any command takes, including waits for locks and for a majority. */
const answerMsMax = 20_000;

/** Returns the reply. Throws NotKnownError after `answerMsMax`: the user's client may have no time limit. */
export async function asking<T>(what: string, work: () => Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const silent = () => reject(new NotKnownError(`[onceflow] [mongodb] no answer to ${what} within ${answerMsMax} ms`));
    timer = setTimeout(silent, answerMsMax);
  });
  try {
    return await Promise.race([work(), late]);
  } catch (error) {
    throw explain(error, what);
  } finally {
    clearTimeout(timer);
  }
}

const silenceMs = 3000;

/**
 * Sends the same request again if it is not answered for a while; the first reply counts. Only for requests that find their own
 * success when they are repeated. Needed because the driver (7.8) may never answer a command on a connection that has just been
 * lost: it waits for a closed socket to drain.
 */
export async function again<T>(request: () => Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const first = request();
  const second = new Promise<T>((resolve, reject) => {
    timer = setTimeout(() => request().then(resolve, reject), silenceMs);
  });
  try {
    return await Promise.race([first, second]);
  } finally {
    clearTimeout(timer);
    // The later reply is ignored.
    second.catch(() => {});
    first.catch(() => {});
  }
}
