import { assert, NotKnownError, OnceflowError, UnreachableError } from "../../../core/errors/errors.js";
import { breaksLink, explain } from "../errors.js";
import type { RedisLink } from "./link.js";

/** Longer than any script of ours takes, and short enough that a silent server does not cost anybody's lease. */
const commandMsMax = 5000;
export const connectMsMax = 5000;

export interface ConnectionOptions {
  /** Makes a link of our own when one is needed; whatever breaks it, the next command gets a new one. */
  readonly connect?: () => Promise<RedisLink>;
  /**
   * The user's: it connects again by itself, and is not ours to close. It is used first. If it does not answer, a link of
   * our own takes its place, where one can be made: the driver may not notice for a quarter of an hour that the other
   * side has vanished, and ending the connection would end what others have under way on it.
   */
  readonly borrowed?: RedisLink;
}

/**
 * The link that everything goes through. Nothing waits in a driver's queue for a connection that may never come: a
 * command is sent on a link that is ready, or not at all; and a reply that does not come is given up in bounded time.
 *
 * Its sockets do not keep the process alive; the timers of what is under way do.
 */
export class Connection {
  readonly #options: ConnectionOptions;
  #link: RedisLink | undefined;
  #connecting: Promise<RedisLink> | undefined;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#link = options.borrowed;
  }

  /** One that is ready. Throws UnreachableError: nothing was sent. */
  async link(): Promise<RedisLink> {
    const link = this.#link;
    if (link?.ready()) return link;
    if (link !== undefined && link === this.#options.borrowed) {
      await untilReady(link);
      return link;
    }
    if (link !== undefined) this.#drop(link);
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = undefined;
    });
    return await this.#connecting;
  }

  /** The answer, in bounded time; or what its absence means. */
  async answer<T>(link: RedisLink, what: string, asked: Promise<T>): Promise<T> {
    try {
      return await within(commandMsMax, asked, what);
    } catch (error) {
      const silent = error instanceof NotKnownError;
      if (link === this.#options.borrowed) this.#leave(link, silent);
      else if (silent || breaksLink(error)) this.#drop(link);
      throw explain(error, what);
    }
  }

  async close(): Promise<void> {
    await this.#connecting?.catch(() => {});
    const link = this.#link;
    this.#link = undefined;
    if (link !== undefined && link !== this.#options.borrowed)
      await within(connectMsMax, link.close(), "closing").catch(() => destroy(link));
  }

  async #connect(): Promise<RedisLink> {
    assert(this.#options.connect !== undefined, "without a link of the user's there is a way to make one");
    const connecting = this.#options.connect();
    try {
      this.#link = await within(connectMsMax, connecting, "connecting");
      return this.#link;
    } catch (error) {
      // It may still come, when nobody waits for it any more.
      connecting.then(destroy, () => {});
      if (error instanceof OnceflowError && !(error instanceof NotKnownError)) throw error;
      const why = error instanceof Error ? error.message : String(error);
      throw new UnreachableError(`[onceflow] [redis] cannot connect: ${why}`, error);
    }
  }

  #leave(borrowed: RedisLink, silent: boolean): void {
    if (!silent || this.#link !== borrowed || this.#options.connect === undefined) return;
    this.#link = undefined;
    process.emitWarning(
      `[onceflow] [redis] the client did not answer for ${commandMsMax} ms: the store makes connections of its own, with the client's settings, from now on`,
      { type: "OnceflowWarning", code: "ONCEFLOW_REDIS_SILENT" },
    );
  }

  #drop(link: RedisLink): void {
    if (this.#link === link) this.#link = undefined;
    destroy(link);
  }
}

function destroy(link: RedisLink): void {
  try {
    link.destroy();
  } catch {
    // It has ended already.
  }
}

/** A client of the user's own connects again by itself: it gets the time that a connection of ours would get. */
async function untilReady(link: RedisLink): Promise<void> {
  const until = performance.now() + connectMsMax;
  while (!link.ready()) {
    if (performance.now() > until) throw new UnreachableError("[onceflow] [redis] the client is not connected");
    await new Promise((again) => setTimeout(again, 10));
  }
}

async function within<T>(ms: number, work: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new NotKnownError(`[onceflow] [redis] no answer to ${what} within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
