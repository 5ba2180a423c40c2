import { NotKnownError } from "../../../core/errors/errors.js";
import { explain } from "../errors.js";

/** Longer than any command of ours takes, waiting for locks and for a majority included. */
const answerMsMax = 20_000;

/** The answer, or what its absence means. A client of the user's own may be willing to wait for ever; we are not. */
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
 * The same request again when the first is not answered for a while, and the first answer counts. For requests that find
 * their own success: sent twice is done once. A command on a connection that has just been lost may be waited for in vain
 * for ever: the driver (7.8) waits for a socket to drain that is closed, and does not hear of it.
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
    // Whichever comes later has nobody to tell.
    second.catch(() => {});
    first.catch(() => {});
  }
}
