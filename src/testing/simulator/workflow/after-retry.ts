import { type Event, isRequest, type Retry } from "../../../workflow/journal/event.js";

/** An event with what the model needs to know about its entry. */
export interface Noted {
  readonly event: Event;
  readonly entry: number;
  readonly consumedBefore: number;
}

interface AfterRetry {
  readonly kept: readonly Noted[];
  /** Requests that the code made after the cut. */
  readonly dropped: ReadonlySet<string>;
}

/** What a journal means after a retry, written down a second time from its specification: the product's own version is src/workflow/journal/history/retries.ts. */
export function afterRetry(noted: readonly Noted[], { cuts, at }: Retry): AfterRetry {
  const isFailure = ({ event }: Noted) => event.type === "fail" && event.retryAt === null && event.how !== "abandoned";
  // A failed child that is retried, too, has not ended.
  const isChildFailure = ({ event }: Noted) => event.type === "ended" && event.status === "failed";
  const isCut = (each: Noted) => "id" in each.event && cuts.includes(each.event.id) && (isFailure(each) || isChildFailure(each));
  const found = noted.findIndex(isCut);
  const cut = found < 0 ? noted.length : found;
  const requestsIn = (part: readonly Noted[]) => part.flatMap(({ event }) => (isRequest(event) && event.type !== "drop" ? [event.id] : []));
  const before = new Set(requestsIn(noted.slice(0, cut)));
  const dropped = new Set(requestsIn(noted.slice(cut)).filter((id) => !before.has(id)));
  const kept = noted.flatMap((each, i): Noted[] => {
    const { event } = each;
    if (event.type === "end" || (event.type === "fail" && event.how === "abandoned")) return [];
    if (i > cut && (event.type === "drop" || ("id" in event && dropped.has(event.id)))) return [];
    if (isCut(each) && isChildFailure(each)) return [];
    const isRetried = isCut(each) || (event.type === "fail" && event.retryAt === null && event.how === "late");
    return [isRetried ? { ...each, event: { ...event, retryAt: at } as Event } : each];
  });
  return { kept, dropped };
}
