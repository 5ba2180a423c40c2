import type { NextFunction, Request, RequestHandler, Response } from "express";
import { answer, isKeyed } from "../answer.js";
import type { IncomingRequest } from "../incoming-request.js";
import { checkOptions, type IdempotentOptions } from "../options.js";
import { expressPaths, isInRoute } from "./express-path.js";
import { NodeCapture } from "./node-capture.js";
import { type MaybeParsed, nodeBody } from "./peek.js";

/**
 * Express middleware: later handlers run once per idempotency key, and retries get the stored response. Mount it after
 * authentication. Throws InvalidInputError for wrong options.
 *
 * @example
 * app.post("/orders", idempotency({ store, scope: (req) => req.user.id }), createOrder);
 */
export function idempotency(options: IdempotentOptions<Request>): RequestHandler {
  const policy = checkOptions(options);
  return function middleware(request: Request, response: Response, next: NextFunction) {
    const incoming = incomingRequest(request, isInRoute(request, middleware));
    if (!isKeyed(policy, incoming)) return next();
    const capture = new NodeCapture(response, policy.responseBytesMax);
    const execute = () => {
      next();
      return capture.captured;
    };
    answer(policy, incoming, execute).then(
      (reply) => (reply === "captured" ? capture.release(policy.ownHeaders) : capture.replace(reply)),
      (error: unknown) => {
        if (!capture.abandon()) next(error);
      },
    );
  };
}

/** The request of Express, or of Nest on Express. */
export function incomingRequest(request: Request, hasMatched: boolean): IncomingRequest<Request> {
  const url = request.originalUrl;
  const at = url.indexOf("?");
  const path = at === -1 ? url : url.slice(0, at);
  return {
    from: request,
    method: request.method,
    path,
    ...expressPaths(request, path, hasMatched),
    query: at === -1 ? "" : url.slice(at),
    header: (name) => request.get(name),
    body: (bytesMax) => nodeBody(request, request as MaybeParsed, bytesMax),
  };
}
