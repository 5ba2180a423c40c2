import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { whole } from "../../core/ledger/key-ref.js";
import { duration } from "../../core/ledger/options.js";
import { requireStore } from "../../core/store/require-store.js";
import type { Store } from "../../core/store/store.js";
import type { Runtime } from "../../exports/graph.js";
import { warnOfError } from "../options.js";
import type { Authorize } from "./caller.js";

/** Options of `createApi`. */
export interface ApiOptions {
  readonly store: Store;
  /** The runtime of flow graphs on this store. Without it the routes of flows answer 501. */
  readonly runtime?: Runtime;
  /** Says who sends a request, and what the sender may do; null or undefined: unknown sender (401). Called for every request. */
  readonly authorize: Authorize;
  /** Refuse every request that changes something. Default false. */
  readonly readOnly?: boolean;
  /** Path at which the handler is mounted, if the framework does not remove it from the URL: "/onceflow". Default "". */
  readonly path?: string;
  /** Maximum time that `authorize` may take. Default 10 s. */
  readonly authorizeMsMax?: number;
  /** Maximum size of a request body. Default 1 MiB. */
  readonly bodyBytesMax?: number;
  /** Maximum time in which a request body must arrive. Default 30 s. */
  readonly bodyMsMax?: number;
  /** Maximum number of open event streams (/live, /run/stream). Default 100. */
  readonly listenersMax?: number;
  /** Maximum number of events that wait for a slow client, whose stream is then ended. Default 1000. */
  readonly eventsMax?: number;
  /** How often /live polls the store. Default 1 s. */
  readonly pollMs?: number;
  /** Interval of the comment lines that keep an idle event stream open. Default 15 s. */
  readonly heartbeatMs?: number;
  /** When it aborts, event streams end. */
  readonly signal?: AbortSignal;
  /** Called with unexpected errors, whose details clients do not receive. Default: emits a process warning. */
  readonly onError?: (error: unknown) => void;
}

export type ApiPolicy = Required<Omit<ApiOptions, "runtime">> & { readonly runtime: Runtime | undefined };

export const apiOptionNames: OptionNames<ApiOptions> = {
  store: true,
  runtime: true,
  authorize: true,
  readOnly: true,
  path: true,
  authorizeMsMax: true,
  bodyBytesMax: true,
  bodyMsMax: true,
  listenersMax: true,
  eventsMax: true,
  pollMs: true,
  heartbeatMs: true,
  signal: true,
  onError: true,
};

export function checkApiOptions(options: ApiOptions): ApiPolicy {
  if (typeof options !== "object" || options === null) throw new InvalidInputError("createApi", "needs { store, authorize }");
  knownOptions("createApi", options, apiOptionNames);
  const { store, runtime, authorize, readOnly = false, path = "", signal = new AbortController().signal, onError = warnOfError } = options;
  const { authorizeMsMax = 10_000, bodyBytesMax = 1024 * 1024, bodyMsMax = 30_000 } = options;
  const { listenersMax = 100, eventsMax = 1000, pollMs = 1000, heartbeatMs = 15_000 } = options;
  requireStore(store);
  if (typeof authorize !== "function")
    throw new InvalidInputError(
      "authorize",
      "must be a function that returns { actor, roles, scopes }: without it anyone could act on this store",
    );
  if (typeof readOnly !== "boolean") throw new InvalidInputError("readOnly", "must be true or false");
  if (runtime !== undefined && runtime.store !== store) throw new InvalidInputError("runtime", "must be a runtime on the same store");
  if (typeof path !== "string" || !/^(\/[\w.-]+)*$/.test(path)) throw new InvalidInputError("path", 'must be a path such as "/onceflow"');
  duration("authorizeMsMax", authorizeMsMax, 1);
  duration("bodyMsMax", bodyMsMax, 1);
  duration("pollMs", pollMs, 10);
  duration("heartbeatMs", heartbeatMs, 10);
  whole("bodyBytesMax", bodyBytesMax, 1, 1024 * 1024 * 1024);
  whole("listenersMax", listenersMax, 0, 100_000);
  whole("eventsMax", eventsMax, 1, 1_000_000);
  const limits = { authorizeMsMax, bodyBytesMax, bodyMsMax, listenersMax, eventsMax, pollMs, heartbeatMs };
  return { store, runtime, authorize, readOnly, path, signal, onError, ...limits };
}
