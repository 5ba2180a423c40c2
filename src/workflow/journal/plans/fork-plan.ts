import { type Event, isRequest } from "../event.js";
import { OpenRequests } from "../history/open-requests.js";
import { withoutRetried } from "../history/retries.js";
import { openHooks } from "./retry-plan.js";

export type ForkRefusal =
  /** Not finished before the chosen event: calls, child runs and hooks. */
  | { readonly because: "open"; readonly ids: readonly string[] }
  /** The run had ended, or was being cancelled, before the chosen event. */
  | { readonly because: "ended" };

/** Notes about the owners of the original, and about mail, which the fork does not have. */
const notCopied: ReadonlySet<Event["type"]> = new Set(["claim", "cleared", "fence", "park", "unpark"]);

/** The events of a fork's first entry: a copy of those before the chosen one. Does no I/O. */
export function planFork(before: readonly Event[]): readonly Event[] | ForkRefusal {
  const events = withoutRetried(before);
  if (events.some(({ type }) => type === "end" || type === "stop" || type === "cancel")) return { because: "ended" };
  const { steps, children } = new OpenRequests(events);
  const ids = [...steps.keys(), ...children.keys(), ...openHooks(events).keys()];
  return ids.length > 0 ? { because: "open", ids } : resumed(copyOf(before));
}

/** The first event has the start time of the code, which must be the same in the fork. So if that event is not copied, a claim takes its place. */
function copyOf(before: readonly Event[]): readonly Event[] {
  // Mail has other numbers in the fork, and none of it is older than this retry.
  const copied = before.flatMap((event): Event[] =>
    event.type === "retry" ? [{ ...event, mail: 0 }] : notCopied.has(event.type) ? [] : [event],
  );
  const [first] = before;
  if (first === undefined || copied.length === 0 || copied[0] === first) return copied;
  return [{ type: "claim", owner: "", at: first.at }, ...copied];
}

/** A pause is copied, because the replay needs it: the code got what was recorded in the pause only after its end. The fork itself is not paused. */
function resumed(events: readonly Event[]): readonly Event[] {
  const last = events.findLast(({ type }) => type === "pause" || type === "resume");
  return last?.type === "pause" ? [...events, { type: "resume", at: last.at }] : events;
}

/**
 * The position of the first event of a request; undefined if the journal does not have the request. If the code made it again after a retry, that one
 * counts; one that retries have dropped counts only if there is no other.
 */
export function positionOf(events: readonly Event[], request: string): number | undefined {
  const isAsked = (event: Event): boolean => isRequest(event) && event.id === request;
  const kept = withoutRetried(events).find(isAsked);
  const i = kept === undefined ? events.findIndex(isAsked) : events.indexOf(kept);
  return i < 0 ? undefined : i;
}
