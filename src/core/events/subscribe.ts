import { InvalidInputError } from "../errors/errors.js";
import { channels, eventNames } from "./channels.js";
import type { EventName, Events } from "./event.js";

/**
 * Calls `listener` with each event of a channel, synchronously and after the commit that the event is about. Returns a function that ends the
 * subscription. An error that the listener throws becomes an uncaught exception of the process in a later turn, as Node does for all
 * diagnostics channels; the operation goes on.
 *
 * @throws InvalidInputError if there is no such channel, or the listener is not a function.
 * @example
 * const stop = subscribe("onceflow:run", (event) => {
 *   if (event.type === "ended") console.log(event.run, event.status);
 * });
 */
export function subscribe<Name extends EventName>(name: Name, listener: (event: Events[Name]) => void): () => void {
  if (!eventNames.includes(name))
    throw new InvalidInputError("name", `there is no channel ${JSON.stringify(name)}; channels: ${eventNames.join(", ")}`);
  if (typeof listener !== "function") throw new InvalidInputError("listener", "must be a function of an event");
  const channel = channels[name.slice("onceflow:".length) as keyof typeof channels];
  // A function of its own: the same listener subscribed twice is called twice, and each subscription ends by itself.
  const hear = (event: unknown) => void listener(event as Events[Name]);
  channel.subscribe(hear);
  return () => void channel.unsubscribe(hear);
}
