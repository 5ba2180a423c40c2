import { assert, NotKnownError, OnceflowError, UnreachableError } from "../../../core/errors/errors.js";
import { breaksLink, explain } from "../errors.js";
import type { RedisLink } from "./link.js";

/** Longer than any script takes, and short enough that a server that does not answer does not cost a lease. */
const commandMsMax = 5000;
export const connectMsMax = 5000;

export interface ConnectionOptions {
  /** Opens a link when one is needed. After a link broke, the next command gets a new one. */
  readonly connect?: () => Promise<RedisLink>;
  /**
   * A link on the user's client, which reconnects by itself and which the store does not close. It is used first. If it does not
   * answer, the store replaces it by its own link, if it can open one: the driver may not notice for a quarter of an hour that the
   * server has vanished, and closing the client would end other commands of the user.
   */
  readonly borrowed?: RedisLink;
}

/**
 * The link that all commands use. No command waits in a driver's queue for a connection that may never come: it is sent on a
 * link that is ready, or not at all. A reply that does not arrive in time is given up.
 *
 * Sockets do not keep the process alive; the timers of commands in progress do.
 */
export class Connection {
  readonly #options: ConnectionOptions;
  #link: RedisLink | undefined;
  #connecting: Promise<RedisLink> | undefined;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#link = options.borrowed;
  }

  /** Returns a link that is ready. Throws UnreachableError if there is none: nothing was sent. */
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

  /** Returns the reply. Throws NotKnownError if it does not arrive in time, or the error that a failure means. */
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
    assert(this.#options.connect !== undefined, "a connection has a link of the user or can open one");
    const connecting = this.#options.connect();
    try {
      this.#link = await within(connectMsMax, connecting, "connecting");
      return this.#link;
    } catch (error) {
      // If the connection is still established later, close it.
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
      `[onceflow] [redis] the client did not answer for ${commandMsMax} ms; from now on the store uses its own connections, with the client's settings`,
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
    // It was already closed.
  }
}

/** The user's client reconnects by itself: wait as long as for opening a connection. */
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
