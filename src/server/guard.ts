import type { MiddlewareHandler } from "hono";
import { isLoopback } from "../core/values/loopback.js";
import { digestOf, sameDigest } from "../core/values/secret.js";
import { problemResponse } from "./problem.js";

/**
 * Rejects requests by host and origin. Without a token only loopback hosts are accepted: a DNS-rebinding page is recognized
 * by its Host header, a cross-site request by its Origin header.
 */
export function hostGuard(token: string | undefined): MiddlewareHandler {
  return async (c, next) => {
    const host = c.req.header("host") ?? new URL(c.req.url).host;
    if (token === undefined && !isLoopback(nameOf(host))) return problemResponse("host-refused");
    if (isForeign(c.req.header("origin"), host)) return problemResponse("origin-refused");
    return await next();
  };
}

/** Rejects requests that web pages of other origins send. Browsers name the origin, or at least say that the request is from another site. */
export function originGuard(refuse: () => Response): MiddlewareHandler {
  return async (c, next) => {
    const host = c.req.header("host") ?? new URL(c.req.url).host;
    const isOther = isForeign(c.req.header("origin"), host) || /^(cross|same)-site$/i.test(c.req.header("sec-fetch-site") ?? "");
    return isOther ? refuse() : await next();
  };
}

function isForeign(origin: string | undefined, host: string): boolean {
  return origin !== undefined && !isOwn(origin, host);
}

/** If the server has a token: rejects requests without it. */
export function tokenGuard(token: string | undefined): MiddlewareHandler {
  const digest = token === undefined ? undefined : digestOf(token);
  return async (c, next) => {
    if (digest !== undefined && !sameDigest(digest, digestOf(bearerOf(c.req.header("authorization")))))
      return problemResponse("unauthorized", "", {}, [["www-authenticate", 'Bearer realm="onceflow"']]);
    return await next();
  };
}

export function bearerOf(field = ""): string {
  return /^bearer +(\S+)$/i.exec(field.trim())?.[1] ?? "";
}

function nameOf(host: string): string {
  return host.replace(/:\d+$/, "");
}

function isOwn(origin: string, host: string): boolean {
  return origin === `http://${host}` || origin === `https://${host}`;
}

/** Responses are data: browsers must not execute, frame, sniff or cache them. */
export const headers: MiddlewareHandler = async (c, next) => {
  await next();
  c.res.headers.set("x-content-type-options", "nosniff");
  c.res.headers.set("content-security-policy", "default-src 'none'; frame-ancestors 'none'");
  c.res.headers.set("referrer-policy", "no-referrer");
  c.res.headers.set("cross-origin-resource-policy", "same-origin");
  if (!c.res.headers.has("cache-control")) c.res.headers.set("cache-control", "no-store");
};
