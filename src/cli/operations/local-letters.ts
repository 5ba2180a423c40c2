import type { Store } from "../../core/store/store.js";
import type { Runtime } from "../../exports/graph.js";
import { createInbox } from "../../exports/inbox.js";
import { InvalidInputError } from "../../exports/index.js";
import type { LetterDetails, LetterOperations, LetterRow } from "./operations.js";
import { plain } from "./plain.js";

/** Dead letters of graphs and outboxes: packets. */
export function packetLetters(client: () => Promise<Runtime>, actor: string): LetterOperations {
  return {
    list: async (query) => plain(await (await client()).deadLetters(query)) as LetterRow[],
    read: async (id) => plain(await (await client()).deadLetter(id)) as LetterDetails | undefined,
    act: async (action, id, options) => {
      const runtime = await client();
      const operator = { ...options, actor };
      const done = action === "retry" ? await runtime.retry(id, operator) : await runtime.discard(id, operator as never);
      return done !== false;
    },
  };
}

/** Dead letters of the inbox of a consumer: failed records. Only a process that has the handler can retry them. */
export function inboxLetters(store: Store, consumer: string): LetterOperations {
  const inbox = createInbox(store, { consumer });
  type Letter = NonNullable<Awaited<ReturnType<typeof inbox.deadLetter>>>;
  const rowOf = ({ key, attempt, diedAt, error }: Omit<Letter, "attempts" | "retries" | "redrives">) => {
    const { code } = error as Error & { readonly code?: unknown };
    const said = { code: typeof code === "string" ? code : error.name, message: error.message };
    return { id: key, flow: `inbox:${consumer}`, queue: "", edge: "", key, attempts: attempt, deadAt: diedAt, error: said };
  };
  return {
    list: async ({ limit, before }) => {
      const page = await inbox.deadLetters({
        ...(limit === undefined ? {} : { limit }),
        ...(before === undefined ? {} : { after: before }),
      });
      return plain(page.map(rowOf)) as LetterRow[];
    },
    read: async (id) => {
      const letter = await inbox.deadLetter(id);
      if (letter === undefined) return undefined;
      const { attempts, retries, message, omitted } = letter;
      const history = [...attempts, ...retries].map(({ attempt, startedAt, endedAt, verdict, note }) => {
        return { attempt, at: startedAt, ms: (endedAt ?? startedAt) - startedAt, code: verdict, message: note ?? "" };
      });
      return plain({ ...rowOf(letter), payload: message?.payload, omitted, history }) as LetterDetails;
    },
    act: async (action, id, { dryRun = false }) => {
      if (action === "retry")
        throw new InvalidInputError(
          "inbox",
          `a message is handled by the program of consumer "${consumer}": call inbox.retry(${JSON.stringify(id)}, handler) there`,
        );
      if ((await inbox.deadLetter(id)) === undefined) return false;
      if (!dryRun) await inbox.discard(id);
      return true;
    },
  };
}
