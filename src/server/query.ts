import type { Context } from "hono";
import { InvalidInputError } from "../core/errors/errors.js";
import type { Page } from "../exports/graph.js";

/** Reads `?limit=` and `?before=`. */
export function pageOf(c: Context): Page {
  const before = c.req.query("before");
  return { limit: numberOf(c, "limit") ?? 100, ...(before === undefined ? {} : { before }) };
}

/** Reads a whole number from the query; undefined if it is missing. */
export function numberOf(c: Context, name: string): number | undefined {
  const text = c.req.query(name);
  if (text === undefined) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidInputError(name, `must be a whole number, not ${JSON.stringify(text.slice(0, 40))}`);
}

/** The cursor of the next page: the last id of this page, if the page is full. */
export function nextOf(items: readonly { readonly id: string }[], { limit }: Page): { readonly next?: string } {
  const last = items.at(-1);
  return last !== undefined && items.length === limit ? { next: last.id } : {};
}
