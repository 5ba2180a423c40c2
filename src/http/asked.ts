import type { RequestBody } from "./fingerprint.js";
import type { Captured } from "./reply.js";

/** A request, of whatever framework. */
export interface Asked<From> {
  /** What the framework calls a request: what `scope` is asked with. */
  readonly from: From;
  readonly method: string;
  /** As the client sent it, mounts included. */
  readonly path: string;
  /**
   * The path as the matched route spells it, with its parameter values as sent: all spellings of it are one operation. Default:
   * `path`.
   */
  readonly routePath?: string;
  /** The path as the router compares it: two paths that it may take for one have the same. Default: `routePath`. */
  readonly foldedPath?: string;
  /** With its "?", or empty. */
  readonly query: string;
  readonly header: (name: string) => string | null | undefined;
  /** Read only when the key is in order. Refuses what is longer than the bound, and leaves the body to the handler. */
  readonly body: (bytesMax: number) => Promise<RequestBody>;
}

/** Runs the handler, and resolves with the response that it made, before anything of it is sent. */
export type Execute = () => Promise<Captured>;
