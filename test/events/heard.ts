import { type EventName, type Events, subscribe } from "onceflow/events";
import { onTestFinished, vi } from "vitest";

interface Hearing<Name extends EventName> {
  /** Default: all events of the channel. */
  readonly isWanted?: (event: Events[Name]) => boolean;
  /** The scene of a test that runs beside others. */
  readonly scene?: { onEnd(end: () => unknown): void };
}

/** Collects the events of a channel until the test ends. */
export function heard<Name extends EventName>(name: Name, { isWanted = () => true, scene }: Hearing<Name> = {}): Events[Name][] {
  const events: Events[Name][] = [];
  const stop = subscribe(name, (event) => void (isWanted(event) && events.push(event)));
  if (scene === undefined) onTestFinished(stop);
  else scene.onEnd(stop);
  return events;
}

/** The type of a run's event, with what makes it different. */
export function inShort(event: Events["onceflow:run"]): string {
  if (event.type === "ended") return `ended ${event.status}`;
  if (event.type === "claimed" || event.type === "resumed") return `${event.type}${event.takenOver ? ", taken over" : ""}`;
  return event.type;
}

/** Without those of claims: whether a run is claimed, or goes on where it was started, depends on how busy its worker is. */
export function withoutClaims(events: readonly Events["onceflow:run"][]): string[] {
  return events.filter(({ type }) => type !== "claimed" && type !== "resumed").map(inShort);
}

/** Repeats expectations until they hold, also on a busy machine. */
export async function eventually(expectations: () => void): Promise<void> {
  await vi.waitFor(expectations, { timeout: 60_000, interval: 5 });
}
