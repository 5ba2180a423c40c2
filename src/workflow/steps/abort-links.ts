import { isPlainObject } from "../../core/values/plain-object.js";
import { decodeError, encodeError } from "../../core/values/stored-error.js";
import type { ServingRun } from "../replay/serving-run.js";

/** AbortControllers and AbortSignals that the code passes to a step, as arguments or as members of an argument. */
export interface AbortLinks {
  /** The arguments without them, which can be copied and compared. */
  readonly rest: readonly unknown[];
  /** Adds to a copy of the arguments new controllers and signals that are linked to those of the code. */
  join(copy: readonly unknown[]): readonly unknown[];
}

/** The run whose code passes them to a step. */
type LinkingRun = Omit<ServingRun, "requests"> & { readonly gone: boolean };

interface Link {
  readonly path: readonly (string | number)[];
  readonly source: AbortController | AbortSignal;
  readonly id: string;
}

/**
 * Bodies get their own controllers, linked to those of the code. An abort by the code reaches the bodies immediately. An abort
 * by a body is journaled and delivered to the code like a result, so that a replay, which runs no bodies, aborts at the same
 * point.
 */
export function linkAborts(run: LinkingRun, call: string, args: readonly unknown[]): AbortLinks | undefined {
  // Fast path: most calls have only primitive values.
  if (!args.some((arg) => typeof arg === "object" && arg !== null)) return undefined;
  const links = [...find(call, args)];
  if (links.length === 0) return undefined;
  for (const { id, source } of links)
    if (source instanceof AbortController) run.answers.on(id, (event) => event.type === "aborted" && source.abort(reasonOf(event.reason)));
  return {
    rest: replaced(args, links, () => null),
    join: (copy) => replaced(copy, links, (link) => joined(run, link)),
  };
}

/** The arguments without controllers and signals, for comparison. */
export function withoutAborts(args: readonly unknown[]): readonly unknown[] {
  return replaced(args, [...find("", args)], () => null);
}

function* find(call: string, args: readonly unknown[]): Generator<Link> {
  let n = 0;
  const link = (source: unknown, path: Link["path"]): Link | undefined =>
    source instanceof AbortController || source instanceof AbortSignal ? { source, path, id: `${call} abort ${n++}` } : undefined;
  for (const [index, arg] of args.entries()) {
    const own = link(arg, [index]);
    if (own) yield own;
    else if (isPlainObject(arg))
      for (const [name, member] of Object.entries(arg)) {
        const inner = link(member, [index, name]);
        if (inner) yield inner;
      }
  }
}

function joined(run: LinkingRun, { source, id }: Link): AbortController | AbortSignal {
  const own = new AbortController();
  const signal = source instanceof AbortController ? source.signal : source;
  let fromCode = signal.aborted;
  if (fromCode) own.abort(signal.reason);
  else
    signal.addEventListener("abort", () => {
      fromCode = true;
      own.abort(signal.reason);
    });
  if (!(source instanceof AbortController)) return own.signal;
  own.signal.addEventListener("abort", () => {
    if (!fromCode && !run.gone) run.arrivals.add({ type: "aborted", id, at: run.now(), reason: encodeError(own.signal.reason) });
  });
  return own;
}

function replaced(args: readonly unknown[], links: readonly Link[], by: (link: Link) => unknown): unknown[] {
  const copy = [...args];
  for (const link of links) {
    const [index, name] = link.path as [number, string?];
    copy[index] = name === undefined ? by(link) : { ...(copy[index] as object), [name]: by(link) };
  }
  return copy;
}

/** If the reason is not an Error, the stored error has it as its cause. */
function reasonOf(text: string): unknown {
  const error = decodeError(text);
  return "thrown" in (JSON.parse(text) as object) ? error.cause : error;
}
