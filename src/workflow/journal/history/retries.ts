import { type ChildEnd, type Event, isDelivery, isRequest, type Retry, type StepFailure } from "../event.js";

/**
 * What a journal means after retries. A retry continues a failed run from a cut: the final failure of a step, or of several. Without meaning from
 * then on are
 *
 *   - the end of the run
 *   - the final failures of the steps that are retried: they are failures before a next attempt
 *   - the failures of child runs that are retried: they are still to end
 *   - what the code requested after the first of these failures, and the answers to that
 *   - "abandoned", the verdict of attempts that still ran when the run ended: they count as attempts whose process died
 *
 * Everything else has happened and stays, also what was recorded after the cut for earlier requests: a result, a payload, the end of a
 * child. The events themselves stay in the journal, for people who read it.
 */
export function withoutRetried(events: readonly Event[]): Event[] {
  let kept: Event[] = [];
  for (const event of events) {
    if (event.type === "retry") kept = applyRetry(kept, event);
    kept.push(event);
  }
  return kept;
}

/** The events before a retry, as they are after it. */
function applyRetry(events: readonly Event[], { cuts, at }: Retry): Event[] {
  const cut = cutOf(events, cuts);
  const dropped = requestedAfter(events, cut);
  const end = events.findLastIndex(({ type }) => type === "end");
  return events.flatMap((event, i): Event[] => {
    if (i === end || isDropped(event, i > cut, dropped)) return [];
    if (!isRetried(event, cuts)) return [event];
    return event.type === "fail" ? [{ ...event, retryAt: at }] : [];
  });
}

/** The position of the first of the failures; the number of events if there is none: then only the end is dropped. */
export function cutOf(events: readonly Event[], cuts: readonly string[]): number {
  const positions = cuts.map((id) => events.findIndex((event) => isFinalFailure(event) && event.id === id));
  return Math.min(events.length, ...positions.filter((i) => i >= 0));
}

/** Ids of the requests that the code made after the cut. */
export function requestedAfter(events: readonly Event[], cut: number): ReadonlySet<string> {
  const before = new Set<string>();
  const after = new Set<string>();
  for (const [i, event] of events.entries()) {
    if (!isRequest(event) || event.type === "drop") continue;
    if (i < cut) before.add(event.id);
    else if (!before.has(event.id)) after.add(event.id);
  }
  return after;
}

function isAbandoned(event: Event): boolean {
  return event.type === "fail" && event.how === "abandoned";
}

function isDropped(event: Event, isAfterCut: boolean, dropped: ReadonlySet<string>): boolean {
  if (isAbandoned(event)) return true;
  if (!isAfterCut || !("id" in event)) return false;
  if (event.type === "drop") return true;
  // A body that aborts a controller of the code does so under the id of its step.
  return dropped.has(event.type === "aborted" ? (event.id.split(" abort ")[0] ?? "") : event.id);
}

/** The failure of what is tried again. Also that of a body which failed after the end of the run: nothing has waited for it. */
function isRetried(event: Event, cuts: readonly string[]): event is StepFailure | ChildEnd {
  return isFinalFailure(event) && (cuts.includes(event.id) || (event.type === "fail" && event.how === "late"));
}

/** Whether a step or a child run has failed for good with this event. */
export function isFinalFailure(event: Event): event is StepFailure | ChildEnd {
  if (event.type === "ended") return event.status === "failed";
  return event.type === "fail" && event.retryAt === null && event.how !== "abandoned";
}

/** The same, entry by entry. */
export function entriesWithoutRetried(entries: readonly (readonly Event[])[]): Event[][] {
  const entryOf = new Map<Event, number>();
  for (const [i, events] of entries.entries()) for (const event of events) entryOf.set(event, i);
  const kept: Event[][] = entries.map(() => []);
  let last = 0;
  for (const event of withoutRetried(entries.flat())) {
    // The failure of a retried step is another object; it stays where it was.
    last = entryOf.get(event) ?? last;
    kept[last]?.push(event);
  }
  return kept;
}

/**
 * From which delivery on the code may make requests that the journal does not have, although the journal has more deliveries for it: from the cut of a
 * retry on, until the first request after the retry. The deliveries after a cut were recorded while the code went another way, and those after the end
 * of the run were not given to the code, which may go on from where it threw. Undefined: from none.
 */
export function looseSinceRetry(events: readonly Event[]): number | undefined {
  // A request that a later retry has dropped is made again by the code, perhaps after a delivery that an earlier retry made loose.
  const lastKept = withoutRetried(events).findLast(isRequest);
  const lastRequest = lastKept === undefined ? -1 : events.lastIndexOf(lastKept);
  const starts = events.flatMap((event, i) => {
    if (i < lastRequest || event.type !== "retry") return [];
    const before = withoutRetried(events.slice(0, i));
    const end = before.findLastIndex(({ type }) => type === "end");
    // Verdicts that were recorded while the run was ending were not given to the code: it has got those before its last request.
    const last = before.slice(0, end).findLastIndex(isRequest);
    const given = before.slice(0, Math.min(cutOf(before, event.cuts), last + 1));
    return [given.filter((each) => isDelivery(each) && !isAbandoned(each)).length];
  });
  return starts.length === 0 ? undefined : Math.min(...starts);
}
