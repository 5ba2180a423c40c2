import { STATUS_CODES } from "node:http";
import type { ParameterizedContext } from "koa";
import { headerList, type Reply, type Thrown } from "../reply.js";

/**
 * In Koa a handler rejects a request with `ctx.throw(404)`. The stored outcome is that error with its properties, in the form in
 * which Koa would send it: a replay throws it again, so that outer middleware formats it as it did the first time. Undefined: the
 * error is a failure.
 */
export function thrownBy(error: unknown): Reply | undefined {
  const { status, expose, message, headers } = error as { status?: unknown; expose?: unknown; message?: string; headers?: object };
  if (typeof status !== "number" || status < 400 || status >= 500 || expose !== true) return undefined;
  const text = message || STATUS_CODES[status] || String(status);
  const own = headerList((headers ?? {}) as Record<string, unknown>).filter(([name]) => name !== "content-type");
  return {
    status,
    headers: [...own, ["content-type", "text/plain; charset=utf-8"]],
    body: Buffer.from(text),
    thrown: { name: (error as Error).name, message: message ?? "", properties: propertiesOf(error as object) },
  };
}

/** Restores the error to throw at a replay. */
export function errorOf(ctx: ParameterizedContext, status: number, thrown: Thrown, headers: Reply["headers"]): unknown {
  const { name, message, properties } = thrown;
  const named = headers.filter(([header]) => !header.startsWith("content-"));
  try {
    ctx.throw(status, message, { ...properties, headers: { ...(properties["headers"] as object), ...Object.fromEntries(named) } });
  } catch (error) {
    return Object.defineProperty(error as Error, "name", { value: name, configurable: true, writable: true });
  }
}

const made = new Set(["status", "statusCode", "expose", "message", "name", "stack"]);

/** The properties that can be stored as JSON: `ctx.throw(400, "invalid", { details })`. */
function propertiesOf(error: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(error).flatMap(([name, value]) => {
      if (made.has(name)) return [];
      const kept = asJson(value);
      return kept === undefined ? [] : [[name, kept]];
    }),
  );
}

function asJson(value: unknown): unknown {
  try {
    const text = JSON.stringify(value);
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
