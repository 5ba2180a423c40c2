import { InvalidInputError } from "../../exports/index.js";
import { type Answer, type ApiCall, queryText } from "../api-client.js";
import { countPages } from "./count-pages.js";
import type { Operations, RunDetails } from "./operations.js";

/** Operations by the HTTP API of a server (`createApi`). The server knows who acts by the token. */
export function remoteOperations(call: ApiCall): Operations {
  const get = async <Body>(path: string, query: object = {}): Promise<Body> => (await call(`${path}${queryText(query)}`)).body as Body;
  const found = async <Body>(path: string, query: object): Promise<Body | undefined> => {
    const { status, body } = await call(`${path}${queryText(query)}`, {}, { notFound: true });
    return status === 404 ? undefined : (body as Body);
  };
  const post = async <Body>(path: string, body: object): Promise<Body> => (await call(path, jsonPost(body))).body as Body;
  const operations: Operations = {
    runs: {
      list: (query) => get("/runs", query),
      count: (filter) => countPages((page) => operations.runs.list({ ...filter, ...page })),
      read: async (id, { values = false } = {}) => withoutValues(await found<RunDetails>("/run", { id }), values),
      journal: async (id, page) => (await get<{ items: never }>("/run/journal", { id, ...page })).items,
      act: (action, id, options) => post(`/runs/${action}`, { id, ...options }),
      start: (request) => post("/runs/start", request),
      deliver: (delivery, options) => post("/hooks/deliver", { ...delivery, ...options }),
    },
    keys: {
      list: (query) => get("/keys", query),
      read: (ref) => found("/key", ref),
      act: (action, ref, options) => post(`/keys/${action}`, { ...ref, ...options }),
    },
    deadLetters: (inbox) => {
      if (inbox !== undefined) throw new InvalidInputError("inbox", "is not part of the HTTP API; use --store");
      return {
        list: async (query) => (await get<{ items: never }>("/dead-letters", query)).items,
        read: (id) => found("/dead-letter", { id }),
        act: async (action, id, options) =>
          wasThere(await call(`/dead-letters/${action}`, jsonPost({ id, ...options }), { notFound: true })),
      };
    },
    workers: async () => (await get<{ items: never }>("/workers")).items,
    log: async (query) => (await get<{ items: never }>("/log", query)).items,
  };
  return operations;
}

const jsonPost = (body: object): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});

/** The server sends values to everyone who may see them; here they are shown only when asked for. */
function withoutValues(run: RunDetails | undefined, values: boolean): RunDetails | undefined {
  if (run === undefined || values) return run;
  const { args: _args, result: _result, ...rest } = run;
  return rest;
}

const wasThere = ({ status }: Answer): boolean => status !== 404;
