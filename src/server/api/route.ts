import type { Store } from "../../core/store/store.js";
import type { ApiCaller, ApiRole } from "./caller.js";
import type { Fields, InputOf } from "./fields.js";
import type { Listeners } from "./listeners.js";
import type { ApiOptions, ApiPolicy } from "./options.js";
import type { ApiProblemCode } from "./problems.js";
import type { SchemaName } from "./schemas.js";

/** What a route works on. */
export interface Call<Input = Readonly<Record<string, unknown>>> {
  readonly store: Store;
  readonly runtime: ApiOptions["runtime"];
  readonly caller: ApiCaller;
  readonly input: Input;
  readonly policy: ApiPolicy;
  readonly listeners: Listeners;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
  /** A HEAD request: an event stream is not opened. */
  readonly headOnly: boolean;
}

/** One route: its checks and its description in the OpenAPI document come from this definition. */
export interface Route<Input = Readonly<Record<string, unknown>>> {
  /** Name of the operation in the OpenAPI document. */
  readonly id: string;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly about: string;
  readonly role: ApiRole;
  /** The answer is nothing but values, so the role `values` is needed, too. */
  readonly needsValues?: true;
  readonly fields: Fields;
  /** Problems besides those that every route can have. */
  readonly problems?: readonly ApiProblemCode[];
  /** The schema of the answer; "events": a stream of server-sent events. */
  readonly answer: SchemaName | "events";
  readonly run: (call: Call<Input>) => Promise<object>;
}

/** Defines a route. Types the input by its fields. */
export function route<F extends Fields>(definition: Omit<Route<InputOf<F>>, "fields"> & { readonly fields: F }): Route {
  return definition as unknown as Route;
}
