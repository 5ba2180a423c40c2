import { InvalidInputError } from "../../../core/errors/errors.js";
import type { Inspection } from "../../../core/ledger/inspect.js";
import { list } from "../../../core/ledger/list.js";
import { states } from "../../../core/ledger/record.js";
import type { RecordSummary } from "../../../core/ledger/summary.js";
import * as keys from "../../../operate/keys.js";
import { type ApiCaller, hasRole, listScope } from "../caller.js";
import { choice, either, flag, members, optional, text, wholeNumber } from "../fields.js";
import { type Call, type Route, route } from "../route.js";
import { errorFor, ownerName, valuesFor } from "../values.js";
import { givenError } from "./given-error.js";
import { idFor, keyField, scopeField } from "./ledger-routes.js";

export const limitField = optional(wholeNumber("Maximum number of items. Default 100", 1, 1000));
export const cursorField = optional(text("Where the previous page ended"));
export const listScopeField = optional(text("Only this scope. Needed by callers with several scopes"));
export const reasonField = text("Why, for the log", 2000);
export const actionFields = {
  actionId: optional(
    text("Identifies the action: sent again with the same id, it is not done again, and the answer is the first one", 512),
  ),
  dryRun: optional(flag("True: only say what the action would do")),
};

const attemptField = wholeNumber("The attempt that the decision is about", 1, Number.MAX_SAFE_INTEGER);
const refIn = { scope: scopeField, key: keyField };
const action = { method: "POST", role: "operate", answer: "KeyAction", problems: ["KEY_NOT_FOUND", "ACTION_REFUSED", "STALE"] } as const;

export const keyRoutes: readonly Route[] = [
  route({
    id: "listKeys",
    method: "GET",
    path: "/keys",
    about: "List keys, ordered by scope and key",
    role: "view",
    fields: {
      scope: listScopeField,
      prefix: optional(text("Only keys that begin with this")),
      state: optional(choice("Only this state", states)),
      limit: limitField,
      cursor: cursorField,
    },
    answer: "KeyList",
    run: async ({ store, caller, input }) => {
      const { scope: given, ...filter } = input;
      const scope = listScope(caller, given);
      const { items, cursor } = await list(store, { ...filter, ...(scope === undefined ? {} : { scope }) });
      return { items: items.map((item) => summaryFor(caller, item)), cursor };
    },
  }),
  route({
    id: "showKey",
    method: "GET",
    path: "/key",
    about: "Show a key with its outcome and its attempts",
    role: "view",
    problems: ["KEY_NOT_FOUND"],
    fields: refIn,
    answer: "KeyDetails",
    run: async ({ store, caller, input }) => detailsFor(caller, await keys.inspect(store, idFor(caller, input))),
  }),
  route({
    ...action,
    id: "resolveKey",
    path: "/keys/resolve",
    about: "Record the outcome of an attempt whose outcome is unknown, or whose lease has expired",
    fields: {
      ...refIn,
      attempt: attemptField,
      as: either(
        'What was found out: { "completed": result }, { "failed": { name, message, code } }, or "free" (it did not happen)',
        choice("", ["free"]),
        members(""),
        'must be { "completed": … }, { "failed": … } or "free"',
      ),
      ...actionFields,
      reason: reasonField,
    },
    run: async ({ store, caller, input: { as, attempt, scope, key, ...options } }) =>
      await keys.resolve(store, { ...idOf(caller, scope, key), attempt }, resolutionOf(as), { ...options, actor: caller.actor }),
  }),
  route({
    ...action,
    id: "releaseKey",
    path: "/keys/release",
    about: "Free a key whose lease has expired; not if its effect may have happened",
    fields: { ...refIn, attempt: optional(attemptField), ...actionFields, reason: optional(reasonField) },
    run: async ({ store, caller, input: { attempt, scope, key, ...options } }) =>
      await keys.release(
        store,
        { ...idOf(caller, scope, key), ...(attempt === undefined ? {} : { attempt }) },
        { ...options, actor: caller.actor },
      ),
  }),
  route({
    ...action,
    id: "eraseKey",
    path: "/keys/erase",
    about: "Remove the stored result or error of a key. The operation does not run again",
    fields: { ...refIn, attempt: optional(attemptField), ...actionFields, reason: reasonField },
    run: async ({ store, caller, input: { attempt, scope, key, ...options } }) =>
      await keys.erase(
        store,
        { ...idOf(caller, scope, key), ...(attempt === undefined ? {} : { attempt }) },
        { ...options, actor: caller.actor },
      ),
  }),
];

function idOf(caller: ApiCaller, scope: string | undefined, key: string) {
  return idFor(caller, scope === undefined ? { key } : { scope, key });
}

function resolutionOf(as: string | Readonly<Record<string, unknown>>): keys.KeyResolution {
  if (typeof as === "string") return "free";
  const { failed } = as;
  if (Object.hasOwn(as, "failed")) {
    if (Object.keys(as).length > 1) throw new InvalidInputError("as", "must have either completed or failed");
    return { failed: givenError("as.failed", failed) };
  }
  return as as keys.KeyResolution;
}

/** The owner of an attempt may settle it, so lists have a name that is derived from it. The fingerprint is a hash of the input, which can be guessed. */
function summaryFor(caller: ApiCaller, { owner, fingerprint, ...rest }: RecordSummary): object {
  return { ...rest, owner: ownerName(owner), ...(hasRole(caller, "values") && fingerprint !== undefined ? { fingerprint } : {}) };
}

function detailsFor(caller: Call["caller"], { value, error, attempts, audit, ...summary }: Inspection): object {
  const outcome = summary.state === "completed" && summary.kept ? valuesFor(caller, () => ({ value })) : {};
  return {
    ...(summaryFor(caller, summary) as Readonly<Record<string, unknown>>),
    ...outcome,
    ...(error === undefined ? {} : { error: errorFor(caller, error) }),
    attempts: attempts.map(({ owner, startedAt, endedAt, note, ...entry }) => ({
      ...entry,
      owner: ownerName(owner),
      startedAt: new Date(startedAt),
      ...(endedAt === null ? {} : { endedAt: new Date(endedAt) }),
      ...(note === null ? {} : { note }),
    })),
    refusals: audit.map(({ answer, attempt, at, owner }) => ({ answer, attempt, at: new Date(at), owner: ownerName(owner) })),
  };
}
