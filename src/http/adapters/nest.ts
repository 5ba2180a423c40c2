import type { CallHandler, ExecutionContext, NestInterceptor } from "@nestjs/common";
import type { Request, Response } from "express";
import { type Observable, of } from "rxjs";
import { ConfigurationError } from "../../core/errors/errors.js";
import { answer, isKeyed } from "../answer.js";
import { checkOptions, type IdempotentOptions, type Policy } from "../options.js";
import { askedOf } from "./express.js";
import { NodeCapture } from "./node-capture.js";

/**
 * An interceptor for a route, a controller or the whole app. Guards have run before it: they know who asks.
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
    const asked = askedOf(request, true);
    if (!isKeyed(this.#policy, asked)) return next.handle();
    const capture = new NodeCapture(response, this.#policy.responseBytesMax);
    return new Promise((resolve, reject) => {
      const reply = answer(this.#policy, asked, () => {
        resolve(next.handle());
        return capture.captured;
      });
      reply.then(
        (reply) => {
          if (reply === "captured") return capture.release(this.#policy.ownHeaders);
          capture.replace(reply);
          // Nest will send something in any case: it goes nowhere.
          resolve(of(undefined));
        },
        (error: unknown) => {
          // Of a response that the handler has destroyed, Nest has the Observable already: this changes nothing then.
          capture.abandon();
          reject(error);
        },
      );
    });
  }
}
