import { InvalidInputError } from "../../../core/errors/errors.js";
import { requirePackets } from "../../../core/store/store.js";
import { createRuntime, type DeadLetterView, type Runtime } from "../../../exports/graph.js";
import { requireAllScopes } from "../caller.js";
import { optional, text } from "../fields.js";
import type { ApiPolicy } from "../options.js";
import { ApiProblem } from "../problems.js";
import { type Call, type Route, route } from "../route.js";
import { valuesFor } from "../values.js";
import { actionFields, limitField, reasonField } from "./keys-routes.js";

const letterField = text("Id of the dead letter", 64);
const scopeProblems = ["MISSING_CAPABILITY", "SCOPE_REFUSED"] as const;

interface Reason {
  readonly reason: string;
}

interface Action extends Partial<Reason> {
  readonly id: string;
  readonly actionId?: string;
  readonly dryRun?: boolean;
}

/** Dead letters of flow graphs and outboxes. They belong to no scope. */
export function deadLetterRoutes(policy: ApiPolicy): readonly Route[] {
  const runtimeOf = withoutDocuments(policy);
  /** A repetition gets the first answer, also if the dead letter is gone by now. */
  const act = (verb: "retry" | "discard") => async (call: Call<Action>) => {
    const runtime = await runtimeOf(call);
    const { id, ...options } = call.input;
    const operator = { ...options, actor: call.caller.actor };
    const done = await found(verb === "retry" ? runtime.retry(id, operator) : runtime.discard(id, operator as typeof operator & Reason));
    return { id, status: verb === "retry" ? "retried" : "discarded", ...done };
  };
  return [
    route({
      id: "listDeadLetters",
      method: "GET",
      path: "/dead-letters",
      about: "List the dead letters of flow graphs and outboxes, newest first. Only for callers with all scopes",
      role: "view",
      problems: scopeProblems,
      fields: {
        flow: optional(text("Only this flow")),
        queue: optional(text("Only this dead-letter queue")),
        before: optional(text("Continue after this id: next of the previous page", 64)),
        limit: limitField,
      },
      answer: "LetterList",
      run: async (call) => {
        const letters = await (await runtimeOf(call)).deadLetters(call.input);
        const last = letters.at(-1);
        const isFull = last !== undefined && letters.length === (call.input.limit ?? 100);
        return { items: letters.map((letter) => viewFor(call, letter)), ...(isFull ? { next: last.id } : {}) };
      },
    }),
    route({
      id: "showDeadLetter",
      method: "GET",
      path: "/dead-letter",
      about: "Show a dead letter with its payload and the error of each attempt",
      role: "view",
      problems: ["DEAD_LETTER_NOT_FOUND", ...scopeProblems],
      fields: { id: letterField },
      answer: "LetterDetails",
      run: async (call) => {
        const { payload, history, ...letter } = await found((await runtimeOf(call)).deadLetter(call.input.id));
        const attempts = history.map(({ message, ...entry }) => ({ ...entry, ...valuesFor(call.caller, () => ({ message })) }));
        return { ...viewFor(call, letter), history: attempts, ...valuesFor(call.caller, () => ({ payload })) };
      },
    }),
    route({
      id: "retryDeadLetter",
      method: "POST",
      path: "/dead-letters/retry",
      about: "Deliver a dead letter again, with the same key",
      role: "operate",
      problems: ["DEAD_LETTER_NOT_FOUND", "EDGE_GONE", "PAYLOAD_LOST", ...scopeProblems],
      fields: { id: letterField, ...actionFields, reason: optional(reasonField) },
      answer: "LetterAction",
      run: act("retry"),
    }),
    route({
      id: "discardDeadLetter",
      method: "POST",
      path: "/dead-letters/discard",
      about: "Remove a dead letter for good",
      role: "operate",
      problems: ["DEAD_LETTER_NOT_FOUND", ...scopeProblems],
      fields: { id: letterField, ...actionFields, reason: reasonField },
      answer: "LetterAction",
      run: act("discard"),
    }),
  ];
}

/** The runtime of this API, or one that runs no flows and no nodes: dead letters of flows that it does not know are retried as they are. */
function withoutDocuments({ store, runtime: given }: ApiPolicy): (call: Call<object>) => Promise<Runtime> {
  let made: Promise<Runtime> | undefined;
  return async ({ caller }) => {
    requireAllScopes(caller);
    requirePackets(store);
    if (given !== undefined) return given;
    made ??= createRuntime({ store, documents: [], work: false }).catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return await made;
  };
}

/** A malformed id is the id of no dead letter. */
async function found<T>(looked: Promise<T | false | undefined>): Promise<T> {
  const answer = await looked.catch((error: unknown) => {
    if (error instanceof InvalidInputError && error.field === "packetId") return undefined;
    throw error;
  });
  if (answer === undefined || answer === false) throw new ApiProblem("DEAD_LETTER_NOT_FOUND");
  return answer;
}

function viewFor({ caller }: Call<object>, { error, ...letter }: DeadLetterView): object {
  const { code, message } = error;
  return { ...letter, error: { code, ...valuesFor(caller, () => ({ message })) } };
}
