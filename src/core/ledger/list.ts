import { InvalidInputError } from "../errors/errors.js";
import { knownOptions, type OptionNames } from "../errors/known-options.js";
import { requireStore } from "../store/require-store.js";
import type { Store } from "../store/store.js";
import { checkName } from "./key.js";
import { whole } from "./key-ref.js";
import { oneOf } from "./options.js";
import { type RecordId, type State, states } from "./record.js";
import { type RecordSummary, summarise } from "./summary.js";

export interface ListOptions {
  readonly scope?: string;
  readonly state?: State;
  /** Keys that begin with this. */
  readonly prefix?: string;
  /** Where the page before ended. */
  readonly cursor?: string;
  /** Default 100, at most 1000. */
  readonly limit?: number;
}

const listOptions: OptionNames<ListOptions> = { scope: true, state: true, prefix: true, cursor: true, limit: true };

export interface RecordPage {
  readonly items: readonly RecordSummary[];
  /** Present when there may be more. */
  readonly cursor?: string;
}

/** What is running, unknown, completed …, by scope and key, a page at a time. */
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
    // Falls through to the one message about cursors.
  }
  throw new InvalidInputError("cursor", "is not one that list() gave out");
}
