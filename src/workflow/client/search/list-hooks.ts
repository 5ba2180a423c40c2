import { InvalidInputError } from "../../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../../core/errors/known-options.js";
import { checkName } from "../../../core/ledger/key.js";
import { readingStore } from "../../process/ambient-store.js";
import { type HookInfo, hookInfoOf } from "../api.js";
import type { InStore } from "../in-store.js";
import { checkLimit } from "./filters.js";

/** Filters and paging of {@link listHooks}. */
export interface ListHooksOptions extends InStore {
  /** The tenant that the runs of the hooks belong to. Default: the hooks of all tenants. */
  readonly scope?: string;
  /** Only the hooks of this run. */
  readonly runId?: string;
  /** Page size, from 1 to 1000. Default 100. */
  readonly limit?: number;
  /** The `cursor` of the previous page. */
  readonly cursor?: string;
}

/** One page of {@link listHooks}. */
export interface HookPage {
  readonly items: readonly HookInfo[];
  /** Undefined on the last page. */
  readonly cursor: string | undefined;
}

const names: OptionNames<ListHooksOptions> = { store: true, scope: true, runId: true, limit: true, cursor: true };

/**
 * Lists the hooks and webhooks that runs wait for, by token. Tokens are secrets: whoever has one can deliver a payload. Throws InvalidInputError if an
 * option is invalid.
 *
 * @example
 * const { items } = await listHooks({ runId: "order-1" });
 */
export async function listHooks(options: ListHooksOptions = {}): Promise<HookPage> {
  knownOptions("listHooks", options, names);
  const { store: given, scope, runId, limit = 100, cursor } = options;
  checkLimit(limit);
  if (runId !== undefined) checkName("key", runId);
  if (scope !== undefined) checkName("scope", scope);
  if (scope === "") throw new InvalidInputError("scope", "is empty; leave the filter out to find the hooks of all scopes");
  if (cursor !== undefined && (typeof cursor !== "string" || !cursor.startsWith("t")))
    throw new InvalidInputError("cursor", "is not a cursor that listHooks returned");
  const store = await readingStore(given);
  const hooks = await store.runs.hooks({
    ...(scope === undefined ? {} : { scope }),
    ...(runId === undefined ? {} : { run: runId }),
    ...(cursor === undefined ? {} : { after: cursor.slice(1) }),
    limit,
  });
  const last = hooks.at(-1);
  return { items: hooks.map(hookInfoOf), cursor: last && hooks.length === limit ? `t${last.token}` : undefined };
}
