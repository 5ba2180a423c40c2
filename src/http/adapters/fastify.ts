import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest, RegisterOptions } from "fastify";
import { isResponse } from "../../core/values/web-kinds.js";
import { answer, isKeyed } from "../answer.js";
import type { RequestBody } from "../fingerprint.js";
import type { IncomingRequest } from "../incoming-request.js";
import { checkOptions, type IdempotentOptions, type Policy } from "../options.js";
import { ownHeaders, withEarlier } from "../own-headers.js";
import { problemReply, Refusal } from "../problem.js";
import { type Captured, headerList, headersByName, type Reply } from "../reply.js";
import { type Taken, take, whole } from "../take.js";
import { streamBody } from "./peek.js";
import { folded, type RoutingSettings, spelledAs } from "./route-path.js";

/** A request whose handler is running. */
interface Flight {
  /** Passes on the handler's response, or a promise that rejects if the response cannot be read. */
  readonly land: (captured: Captured | Promise<Captured>) => void;
  /** What to send to the client. */
  readonly reply: Promise<Reply | "captured">;
  /** The handler's own headers at the time it sends. */
  readonly sentHeaders: () => Reply["headers"];
}

/**
 * Fastify plugin: routes registered after it run once per idempotency key, and retries get the stored response. Register it
 * after authentication. Fails with InvalidInputError for wrong options.
 *
 * @example
 * await app.register(idempotency, { store, scope: (request) => request.user.id });
 */
export function idempotency(app: FastifyInstance, options: IdempotentOptions<FastifyRequest>, done: (error?: Error) => void): void {
  try {
    // Fastify passes these options to every plugin.
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
  const incomingRequest = (request: FastifyRequest): IncomingRequest<FastifyRequest> => {
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

  // Reads the body before Fastify parses it, because the fingerprint is made from the bytes.
  app.addHook("preParsing", async (request, reply, payload) => {
    if (!isKeyed(policy, incomingRequest(request))) return payload;
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
    const incoming = incomingRequest(request);
    if (!isKeyed(policy, incoming)) return go();
    before.set(request, headerList(reply.getHeaders()));
    let land: Flight["land"] = () => {};
    let landed = false;
    const response = new Promise<Captured>((resolve) => {
      land = (captured) => {
        landed = true;
        resolve(captured);
      };
    });
    const answered = answer(policy, incoming, () => {
      flights.set(request, { land, reply: answered, sentHeaders: headersAtSend(reply) });
      go();
      return response;
    });
    // If the handler's response has landed, onSend sends the answer. Otherwise the handler did not run or exceeded its time limit.
    const instead = (respond: () => void) => {
      if (landed) return;
      flights.delete(request);
      respond();
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
        // Hooks that ran before this one have set headers for this request: of those only the headers that describe the body are stored.
        const describing = headerList(reply.getHeaders()).filter(([name]) => name.startsWith("content-"));
        const sent = [...flight.sentHeaders(), ...(isResponse(payload) ? payload.headers : [])].filter(
          ([name]) => !name.startsWith("content-"),
        );
        const headers = ownHeaders([...sent, ...describing], before.get(request) ?? []);
        return { status: reply.statusCode, headers, body: taken?.bytes ?? null, whole: taken?.rest === undefined };
      }),
    );
    // Rejects if the response's stream fails: Fastify answers with an error, and the key is free.
    const answered = await flight.reply;
    const taken = await taking;
    if (answered !== "captured") return replace(reply, earlier(request, answered));
    for (const [name, value] of policy.ownHeaders) reply.header(name, value);
    return taken === null ? body : taken.rest === undefined ? Buffer.from(taken.bytes) : Readable.from(whole(taken));
  });
}

/** Records the headers when the handler, or an error handler, sends: before hooks add theirs. */
function headersAtSend(reply: FastifyReply): () => Reply["headers"] {
  const { send: original } = reply;
  let headers: Reply["headers"] | undefined;
  reply.send = (payload?: unknown) => {
    headers = headerList(reply.getHeaders());
    return original.call(reply, payload);
  };
  return () => headers ?? headerList(reply.getHeaders());
}

/** Copies status and headers of a Response to the reply: Fastify does that only after the hooks. */
function headOf(reply: FastifyReply, { status, headers, body }: Response): unknown {
  reply.code(status);
  for (const [name, value] of headersByName([...headers])) reply.header(name, value);
  return body;
}

/** Reads the routing settings, which are in `routerOptions` since Fastify 5.6. */
function routingOf({ initialConfig }: FastifyInstance): RoutingSettings {
  type Config = { readonly caseSensitive?: boolean; readonly ignoreTrailingSlash?: boolean; readonly ignoreDuplicateSlashes?: boolean };
  const given: Config[] = [initialConfig, (initialConfig as { routerOptions?: Config }).routerOptions ?? {}];
  return {
    ignoreCase: given.some(({ caseSensitive }) => caseSensitive === false),
    ignoreTrailingSlash: given.some(({ ignoreTrailingSlash }) => ignoreTrailingSlash === true),
    ignoreDuplicateSlashes: given.some(({ ignoreDuplicateSlashes }) => ignoreDuplicateSlashes === true),
  };
}

// Makes the hooks apply to the whole app, not only to routes registered inside this plugin.
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
