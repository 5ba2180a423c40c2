import type { CallHandler, ExecutionContext, NestInterceptor } from "@nestjs/common";
import type { Request, Response } from "express";
import { type Observable, of } from "rxjs";
import { ConfigurationError } from "../../core/errors/errors.js";
import { answer, isKeyed } from "../answer.js";
import { checkOptions, type IdempotentOptions, type Policy } from "../options.js";
import { incomingRequest } from "./express.js";
import { NodeCapture } from "./node-capture.js";

/**
 * Nest interceptor for a route, a controller or the whole app (Nest on Express): handlers run once per idempotency key, and
 * retries get the stored response. Guards run before it, so the request is authenticated. Throws InvalidInputError for wrong
 * options, and ConfigurationError (`MISSING_CAPABILITY`) on Fastify.
 *
 * @example
 * app.useGlobalInterceptors(new IdempotencyInterceptor({ store, scope: (req) => req.user.id }));
 */
export class IdempotencyInterceptor implements NestInterceptor {
  readonly #policy: Policy<Request>;

  constructor(options: IdempotentOptions<Request>) {
    this.#policy = checkOptions(options);
  }

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> | Promise<Observable<unknown>> {
    if (context.getType() !== "http") return next.handle();
    const http = context.switchToHttp();
    const [request, response] = [http.getRequest<Request>(), http.getResponse<Response>()];
    if (typeof response?.writeHead !== "function")
      throw new ConfigurationError("[onceflow] IdempotencyInterceptor is for Nest on Express; on Fastify register onceflow/http/fastify", {
        code: "MISSING_CAPABILITY",
      });
    const incoming = incomingRequest(request, true);
    if (!isKeyed(this.#policy, incoming)) return next.handle();
    const capture = new NodeCapture(response, this.#policy.responseBytesMax);
    return new Promise((resolve, reject) => {
      const reply = answer(this.#policy, incoming, () => {
        resolve(next.handle());
        return capture.captured;
      });
      reply.then(
        (reply) => {
          if (reply === "captured") return capture.release(this.#policy.ownHeaders);
          capture.replace(reply);
          // Nest sends a response in any case; that one is dropped.
          resolve(of(undefined));
        },
        (error: unknown) => {
          // If the handler destroyed the response, the promise is already resolved with its Observable, and reject does nothing.
          capture.abandon();
          reject(error);
        },
      );
    });
  }
}
