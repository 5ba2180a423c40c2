import { Ajv2020 } from "ajv/dist/2020.js";
import { open, type Store } from "onceflow";
import { type ApiCaller, type ApiHandler, type ApiOptions, createApi } from "onceflow/server";
import { onTestFinished } from "vitest";
import { apiDocument } from "../../../src/server/api/openapi.js";
import { checkApiOptions } from "../../../src/server/api/options.js";
import { routesOf } from "../../../src/server/api/routes/routes.js";
import type { Scene as Place } from "../../kit/scene.js";

/** The definitions of all routes. */
export const routes = routesOf(checkApiOptions({ store: await open("memory:"), authorize: () => null }));
export const document = apiDocument(routes, "") as OpenApi;

interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<"get" | "post", Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
}

interface Operation {
  readonly operationId: string;
  readonly responses: Readonly<Record<string, { readonly content: Readonly<Record<string, { readonly schema: object }>> }>>;
}

const ajv = new Ajv2020({ strict: false, validateFormats: false });
ajv.addSchema({ $id: "api", components: document.components });

const checks = new Map<string, ReturnType<typeof ajv.compile>>();

/** Every answer of every test is compared with the document. */
function checkAnswer(request: Request, { status, headers }: Response, body: object): void {
  const { pathname } = new URL(request.url);
  const operation = document.paths[pathname]?.[request.method === "POST" ? "post" : "get"];
  const type = headers.get("content-type")?.split(";")[0] ?? "";
  if (operation === undefined || request.method === "HEAD") return;
  const described = operation.responses[status]?.content[type];
  if (described === undefined)
    throw new Error(`${operation.operationId}: the document has no answer ${status} ${type}: ${JSON.stringify(body)}`);
  const schema = JSON.stringify(described.schema).replaceAll('"#/', '"api#/');
  const check = checks.get(schema) ?? ajv.compile(JSON.parse(schema) as object);
  checks.set(schema, check);
  if (!check(body)) throw new Error(`${operation.operationId}: ${ajv.errorsText(check.errors)}: ${JSON.stringify(body)}`);
}

/** A caller with all rights. */
export const root: ApiCaller = { actor: "ann", roles: ["view", "work", "operate", "values"], scopes: "*" };

interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers: Headers;
}

export interface ApiScene {
  readonly store: Store;
  readonly api: ApiHandler;
  /** The next requests come from this caller. */
  caller: ApiCaller;
  readonly get: (path: string, query?: Readonly<Record<string, string>>) => Promise<Answer>;
  readonly post: (path: string, body: unknown, headers?: Readonly<Record<string, string>>) => Promise<Answer>;
  readonly send: (request: Request) => Promise<Answer>;
}

export interface SceneOptions extends Partial<ApiOptions> {
  readonly place?: Place;
}

/** An API over the given database, or over memory. */
export async function apiScene({ place, ...options }: SceneOptions = {}): Promise<ApiScene> {
  const store = options.store ?? (await (place?.open() ?? open("memory:")));
  if (options.store === undefined && place === undefined) onTestFinished(() => store.close());
  const scene = { caller: root };
  const api = createApi({ authorize: () => scene.caller, onError: (error) => console.error(error), ...options, store });
  const send = async (request: Request): Promise<Answer> => {
    const response = await api(request);
    const text = await response.text();
    const body = JSON.parse(text === "" ? "{}" : text) as Record<string, unknown>;
    checkAnswer(request, response, body);
    return { status: response.status, body, headers: response.headers };
  };
  return Object.assign(scene, {
    store,
    api,
    send,
    get: (path: string, query: Readonly<Record<string, string>> = {}) =>
      send(new Request(`http://localhost${path}?${new URLSearchParams(query).toString()}`)),
    post: (path: string, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
      send(
        new Request(`http://localhost${path}`, {
          method: "POST",
          headers: { "content-type": "application/json", ...headers },
          body: typeof body === "string" ? body : JSON.stringify(body),
        }),
      ),
  });
}
