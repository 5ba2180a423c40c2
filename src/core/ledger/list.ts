import { InvalidInputError } from "../errors/errors.js";
import { knownOptions, type OptionNames } from "../errors/known-options.js";
import { requireStore } from "../store/require-store.js";
import type { Store } from "../store/store.js";
import { checkName } from "./key.js";
import { whole } from "./key-ref.js";
import { oneOf } from "./options.js";
import { type RecordId, type State, states } from "./record.js";
import { type RecordSummary, summarise } from "./summary.js";

/** Filters and paging of {@link list}. */
export interface ListOptions {
  /** Only this scope. Default: all scopes. */
  readonly scope?: string;
  /** Only records in this state. */
  readonly state?: State;
  /** Only keys that begin with this. */
  readonly prefix?: string;
  /** The `cursor` of the previous page. */
  readonly cursor?: string;
  /** Default 100, at most 1000. */
  readonly limit?: number;
}

const listOptions: OptionNames<ListOptions> = { scope: true, state: true, prefix: true, cursor: true, limit: true };

/** One page of {@link list}. */
export interface RecordPage {
  readonly items: readonly RecordSummary[];
  /** Present if there may be another page: pass it to the next call. */
  readonly cursor?: string;
}

/**
 * Lists records ordered by scope and key, one page at a time. Changes nothing.
 *
 * @throws InvalidInputError if an option is not valid.
 * @example
 * const { items, cursor } = await list(store, { state: "unknown" });
 */
export async function list(store: Store, options: ListOptions = {}): Promise<RecordPage> {
  requireStore(store);
  knownOptions("list", options, listOptions);
  const { scope, state, prefix, cursor, limit = 100 } = options;
  if (scope !== undefined) checkName("scope", scope);
  if (state !== undefined) oneOf("state", state, states);
  if (prefix !== undefined && prefix !== "") checkName("key", prefix);
  whole("limit", limit, 1, 1000);
  const readings = await store.list({
    ...(scope === undefined ? {} : { scope }),
    ...(state === undefined ? {} : { state }),
    ...(prefix === undefined || prefix === "" ? {} : { prefix }),
    ...(cursor === undefined ? {} : { after: fromCursor(cursor) }),
    limit,
  });
  const items = readings.map(summarise);
  const last = items.at(-1);
  return last !== undefined && items.length === limit ? { items, cursor: toCursor(last) } : { items };
}

function toCursor({ scope, key }: RecordId): string {
  return Buffer.from(JSON.stringify([scope, key])).toString("base64url");
}

function fromCursor(cursor: string): RecordId {
  try {
    const [scope, key] = JSON.parse(Buffer.from(String(cursor), "base64url").toString()) as [unknown, unknown];
    if (typeof scope === "string" && typeof key === "string") return { scope, key };
  } catch {
    // Not JSON: the same message as below.
  }
  throw new InvalidInputError("cursor", "is not a cursor returned by list()");
}
