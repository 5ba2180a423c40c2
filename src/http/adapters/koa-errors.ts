import { STATUS_CODES } from "node:http";
import type { ParameterizedContext } from "koa";
import { headerList, type Reply, type Thrown } from "../reply.js";

/**
 * `ctx.throw(404)` is how Koa refuses. The outcome is that error, in the form that Koa would give it, and with its
 * properties: at a replay it is thrown again, so that outer middleware gives it the same form as the first time. Undefined:
 * the error is a failure.
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

/** The error of a replay. */
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

/** Those that can be kept as JSON: `ctx.throw(400, "invalid", { details })`. */
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
