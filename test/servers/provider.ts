/** What a source came up with: the path `start` works from, and in words where that came from. */
export interface Found {
  readonly from: string;
  readonly path: string;
  /** The folder that holds all of it and still works when copied elsewhere; absent when it has to stay where it is. */
  readonly movable?: string;
}

/** One way to get something. `seek` answers with it or throws the reason it cannot be had this way. */
interface Source {
  readonly name: "machine" | "npm" | "debian";
  seek(): Promise<Found>;
}

export interface Running {
  readonly from: string;
  stop(): Promise<void>;
}

/** A server. One that the tests were only given the address of has no `pid`, `folder`, `kill` and `restart`. */
export interface Server extends Running {
  readonly url: string;
  readonly pid?: number | undefined;
  /** Its data and its log, until it is stopped. */
  readonly folder?: string;
  /** SIGKILL to the server and all its processes, and the wait until they are gone. */
  kill?(): Promise<void>;
  /** Starts a killed server again, on the same data and the same port. */
  restart?(): Promise<void>;
}

/** A program that tests start themselves. */
export interface Runtime extends Running {
  readonly path: string;
}

export interface Provider<R extends Running> {
  /** As messages name it. */
  readonly title: string;
  /** The environment variables: `given` replaces all sources, `from` picks one source by name. */
  readonly env: { readonly given: string; readonly from: string };
  /** Why this project does not even try on this platform; absent or undefined where it does. */
  unsupported?(): string | undefined;
  /** What the value of the variable `env.given` stands for. */
  given(value: string): Promise<R>;
  /** Tried in this order: what is there before what has to be fetched. */
  readonly sources: readonly Source[];
  start(found: Found): Promise<R>;
}
