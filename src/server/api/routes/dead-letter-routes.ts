import { InvalidInputError } from "../../../core/errors/errors.js";
import { requirePackets } from "../../../core/store/store.js";
import { createRuntime, type DeadLetterDetails, type DeadLetterView, type Runtime } from "../../../exports/graph.js";
import { requireAllScopes } from "../caller.js";
import { optional, text } from "../fields.js";
import type { ApiPolicy } from "../options.js";
import { ApiProblem } from "../problems.js";
import { type Call, type Route, route } from "../route.js";
import { valuesFor } from "../values.js";
import { limitField } from "./keys-routes.js";

const letterField = text("Id of the dead letter", 64);
const scopeProblems = ["MISSING_CAPABILITY", "SCOPE_REFUSED"] as const;

/** Dead letters of flow graphs and outboxes. They belong to no scope. */
export function deadLetterRoutes(policy: ApiPolicy): readonly Route[] {
  const runtimeOf = withoutDocuments(policy);
  const act = (verb: "retry" | "discard") => async (call: Call<{ readonly id: string }>) => {
    const runtime = await runtimeOf(call);
    const { id } = await letterOf(runtime, call.input.id);
    if (!(await runtime[verb](id))) throw new ApiProblem("DEAD_LETTER_NOT_FOUND");
    return { id, status: verb === "retry" ? "retried" : "discarded" };
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
        const { payload, history, ...letter } = await letterOf(await runtimeOf(call), call.input.id);
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
      fields: { id: letterField },
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
      fields: { id: letterField },
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

async function letterOf(runtime: Runtime, id: string): Promise<DeadLetterDetails> {
  try {
    const letter = await runtime.deadLetter(id);
    if (letter !== undefined) return letter;
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
  }
  throw new ApiProblem("DEAD_LETTER_NOT_FOUND");
}

function viewFor({ caller }: Call<object>, { error, ...letter }: DeadLetterView): object {
  const { code, message } = error;
  return { ...letter, error: { code, ...valuesFor(caller, () => ({ message })) } };
}
