import { open, type Store } from "onceflow";
import { type ApiCaller, type ApiHandler, type ApiOptions, createApi } from "onceflow/server";
import { onTestFinished } from "vitest";
import type { Scene as Place } from "../../kit/scene.js";

/** A caller with all rights. */
export const root: ApiCaller = { actor: "ann", roles: ["view", "work", "operate", "values"], scopes: "*" };

export interface Answer {
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
    return { status: response.status, body: JSON.parse(text === "" ? "{}" : text) as Record<string, unknown>, headers: response.headers };
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
