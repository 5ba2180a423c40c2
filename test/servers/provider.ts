/** What a source has found: the path for `start`, and its origin in words. */
export interface Found {
  readonly from: string;
  readonly path: string;
  /** The folder that contains everything and can be copied elsewhere; undefined if it cannot be moved. */
  readonly movable?: string;
}

/** One way to get a program. `seek` returns it, or throws the reason why this way does not work. */
interface Source {
  readonly name: "machine" | "npm" | "debian";
  seek(): Promise<Found>;
}

export interface Running {
  readonly from: string;
  stop(): Promise<void>;
}

/** A server. One that was given by its URL has no `pid`, `folder`, `kill` and `restart`. */
export interface Server extends Running {
  readonly url: string;
  readonly pid?: number | undefined;
  /** The folder of its data and its log, until it is stopped. */
  readonly folder?: string;
  /** Sends SIGKILL to the server and all its processes, and waits until they have ended. */
  kill?(): Promise<void>;
  /** Starts a killed server again, on the same data and the same port. */
  restart?(): Promise<void>;
}

/** A program that tests start themselves. */
export interface Runtime extends Running {
  readonly path: string;
}

export interface Provider<R extends Running> {
  /** The name in messages. */
  readonly title: string;
  /** The environment variables: `given` replaces all sources, `from` picks one source by name. */
  readonly env: { readonly given: string; readonly from: string };
  /** The reason why this project does not support the server on this platform; undefined if it does. */
  unsupported?(): string | undefined;
  /** Returns the server for the value of the variable `env.given`. */
  given(value: string): Promise<R>;
  /** In the order in which they are tried: installed programs before those that must be fetched. */
  readonly sources: readonly Source[];
  start(found: Found): Promise<R>;
}
