import type { RequestBody } from "./fingerprint.js";
import type { Captured } from "./reply.js";

/** A request of any framework. */
export interface IncomingRequest<From> {
  /** The framework's request object, passed to `scope` and `required`. */
  readonly from: From;
  readonly method: string;
  /** As the client sent it, including mount paths. */
  readonly path: string;
  /**
   * The path as the matched route spells it, with parameter values as sent: all spellings of a route are one operation.
   * Default: `path`.
   */
  readonly routePath?: string;
  /** The path as the router compares it: equal for two paths that the router may treat as one. Default: `routePath`. */
  readonly foldedPath?: string;
  /** The query with its "?", or empty. */
  readonly query: string;
  readonly header: (name: string) => string | null | undefined;
  /** Reads the body after the key is checked, and leaves it readable for the handler. Throws a Refusal if it is too long. */
  readonly body: (bytesMax: number) => Promise<RequestBody>;
}

/** Runs the handler and resolves with its response, before any of it is sent. */
export type Execute = () => Promise<Captured>;
