import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest, RegisterOptions } from "fastify";
import { isResponse } from "../../core/values/web-kinds.js";
import { answer, isKeyed } from "../answer.js";
import type { Asked } from "../asked.js";
import type { RequestBody } from "../fingerprint.js";
import { checkOptions, type IdempotentOptions, type Policy } from "../options.js";
import { ownHeaders, withEarlier } from "../own-headers.js";
import { problemReply, Refusal } from "../problem.js";
import { type Captured, headerList, headersByName, type Reply } from "../reply.js";
import { type Taken, take, whole } from "../take.js";
import { streamBody } from "./peek.js";
import { folded, type RoutingSettings, spelledAs } from "./route-path.js";

/** A request that is being worked on: the handler's response goes one way, and what may be sent comes back. */
interface Flight {
  /** With the response, or the promise of it: it rejects when the response cannot be read. */
  readonly land: (captured: Captured | Promise<Captured>) => void;
  readonly reply: Promise<Reply | "captured">;
  /** The handler's own headers, when it sends. */
  readonly sentHeaders: () => Reply["headers"];
}

/**
 * A Fastify plugin: keyed requests of the routes that are registered after it are executed once per key. Register it behind
 * whoever finds out who asks.
 *
 * @example
 * await app.register(idempotency, { store, scope: (request) => request.user.id });
 */
export function idempotency(app: FastifyInstance, options: IdempotentOptions<FastifyRequest>, done: (error?: Error) => void): void {
  try {
    // These are Fastify's own; it hands them to every plugin.
    const { prefix: _, logLevel: __, logSerializers: ___, ...ours } = options as IdempotentOptions<FastifyRequest> & RegisterOptions;
    addHooks(app, checkOptions(ours));
    done();
  } catch (error) {
    done(error as Error);
  }
}

function addHooks(app: FastifyInstance, policy: Policy<FastifyRequest>): void {
  const bodies = new WeakMap<FastifyRequest, RequestBody>();
  const flights = new WeakMap<FastifyRequest, Flight>();
  /** Headers that were set before the handler ran. */
  const before = new WeakMap<FastifyRequest, Reply["headers"]>();
  const earlier = (request: FastifyRequest, found: Reply) => withEarlier(found, before.get(request) ?? []);
  const settings = routingOf(app);
  const askedOf = (request: FastifyRequest): Asked<FastifyRequest> => {
    const at = request.originalUrl.indexOf("?");
    const path = at === -1 ? request.originalUrl : request.originalUrl.slice(0, at);
    const routePath = spelledAs(request.routeOptions?.url ?? "*", path);
    return {
      from: request,
      method: request.method,
      path,
      ...(routePath === undefined ? { foldedPath: folded(path, settings) } : { routePath }),
      query: at === -1 ? "" : request.originalUrl.slice(at),
      header: (name) => request.headers[name.toLowerCase()] as string | undefined,
      body: async () => bodies.get(request) as RequestBody,
    };
  };

  // Before Fastify parses the body: the bytes count, not what a parser makes of them.
  app.addHook("preParsing", async (request, reply, payload) => {
    if (!isKeyed(policy, askedOf(request))) return payload;
    try {
      bodies.set(request, await streamBody(request.raw, policy.bodyBytesMax));
      return payload;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      before.set(request, headerList(reply.getHeaders()));
      send(reply, earlier(request, problemReply(error.problem, policy, error.message)));
      return reply as never;
    }
  });

  app.addHook("preHandler", (request, reply, go) => {
    const asked = askedOf(request);
    if (!isKeyed(policy, asked)) return go();
    before.set(request, headerList(reply.getHeaders()));
    let land: Flight["land"] = () => {};
    let landed = false;
    const response = new Promise<Captured>((resolve) => {
      land = (captured) => {
        landed = true;
        resolve(captured);
      };
    });
    const answered = answer(policy, asked, () => {
      flights.set(request, { land, reply: answered, sentHeaders: headersAtSend(reply) });
      go();
      return response;
    });
    // What has landed waits in onSend, and is told there. Else nobody flew, or it took too long.
    const instead = (tell: () => void) => {
      if (landed) return;
      flights.delete(request);
      tell();
    };
    answered.then(
      (found) => instead(() => send(reply, earlier(request, found as Reply))),
      (error: Error) => instead(() => go(error)),
    );
  });

  app.addHook("onSend", async (request, reply, payload) => {
    const flight = flights.get(request);
    if (flight === undefined) return payload;
    flights.delete(request);
    const body = isResponse(payload) ? headOf(reply, payload) : payload;
    const taking = bodyOf(body, policy.responseBytesMax);
    flight.land(
      taking.then((taken) => {
        // Hooks that ran before this one have set headers for this request: of those only what describes the body is stored.
        const describing = headerList(reply.getHeaders()).filter(([name]) => name.startsWith("content-"));
        const sent = [...flight.sentHeaders(), ...(isResponse(payload) ? payload.headers : [])].filter(
          ([name]) => !name.startsWith("content-"),
        );
        const headers = ownHeaders([...sent, ...describing], before.get(request) ?? []);
        return { status: reply.statusCode, headers, body: taken?.bytes ?? null, whole: taken?.rest === undefined };
      }),
    );
    // Rejects when the stream of the response broke: Fastify answers with an error, and the key is free.
    const answered = await flight.reply;
    const taken = await taking;
    if (answered !== "captured") return replace(reply, earlier(request, answered));
    for (const [name, value] of policy.ownHeaders) reply.header(name, value);
    return taken === null ? body : taken.rest === undefined ? Buffer.from(taken.bytes) : Readable.from(whole(taken));
  });
}

/** Looks at the headers at the moment at which the handler, or an error handler, sends; hooks come after that. */
function headersAtSend(reply: FastifyReply): () => Reply["headers"] {
  const { send: original } = reply;
  let headers: Reply["headers"] | undefined;
  reply.send = (payload?: unknown) => {
    headers = headerList(reply.getHeaders());
    return original.call(reply, payload);
  };
  return () => headers ?? headerList(reply.getHeaders());
}

/** Fastify takes status and headers of a Response only after the hooks. */
function headOf(reply: FastifyReply, { status, headers, body }: Response): unknown {
  reply.code(status);
  for (const [name, value] of headersByName([...headers])) reply.header(name, value);
  return body;
}

/** Since Fastify 5.6 under `routerOptions`. */
function routingOf({ initialConfig }: FastifyInstance): RoutingSettings {
  type Config = { readonly caseSensitive?: boolean; readonly ignoreTrailingSlash?: boolean; readonly ignoreDuplicateSlashes?: boolean };
  const given: Config[] = [initialConfig, (initialConfig as { routerOptions?: Config }).routerOptions ?? {}];
  return {
    ignoreCase: given.some(({ caseSensitive }) => caseSensitive === false),
    ignoreTrailingSlash: given.some(({ ignoreTrailingSlash }) => ignoreTrailingSlash === true),
    ignoreDuplicateSlashes: given.some(({ ignoreDuplicateSlashes }) => ignoreDuplicateSlashes === true),
  };
}

// For the app, not only for what is registered inside of this plugin.
Object.defineProperty(idempotency, Symbol.for("skip-override"), { value: true });

async function bodyOf(payload: unknown, bytesMax: number): Promise<Taken | null> {
  if (payload === null || payload === undefined) return null;
  if (typeof payload === "string") return await take(Readable.from([Buffer.from(payload)]), bytesMax);
  if (payload instanceof Uint8Array) return await take(Readable.from([payload]), bytesMax);
  return await take(payload as AsyncIterable<Uint8Array>, bytesMax);
}

function send(reply: FastifyReply, answered: Reply): void {
  // Null would be sent as JSON.
  void reply.send(replace(reply, answered) ?? undefined);
}

function replace(reply: FastifyReply, { status, headers, body }: Reply): Buffer | null {
  for (const name of Object.keys(reply.getHeaders())) {
    reply.removeHeader(name);
    reply.raw.removeHeader(name);
  }
  reply.code(status);
  for (const [name, value] of headersByName(headers)) reply.header(name, value);
  return body === null ? null : Buffer.from(body);
}
