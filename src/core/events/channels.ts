import { type Channel, channel } from "node:diagnostics_channel";
import type { EventName, Events } from "./event.js";

/** The channels of this process. Node keeps one channel for each name, so two loaded copies of this package share them. */
export const channels = {
  run: channel("onceflow:run"),
  step: channel("onceflow:step"),
  once: channel("onceflow:once"),
  delivery: channel("onceflow:delivery"),
  message: channel("onceflow:message"),
  request: channel("onceflow:request"),
  flush: channel("onceflow:flush"),
  lease: channel("onceflow:lease"),
} as const;

type Name = keyof typeof channels;

/** Names of the channels, for `node:diagnostics_channel`. */
export const eventNames: readonly EventName[] = (Object.keys(channels) as Name[]).map((name) => `onceflow:${name}` as const);

/**
 * Whether a channel has a subscriber. Asked before an event is made, so that events without a subscriber cost one property read.
 */
export function isHeard(name: Name): boolean {
  return channels[name].hasSubscribers;
}

/** Publishes an event. Call it only if the channel is heard. An error of a subscriber is reported by Node in a later turn, and never reaches the caller. */
export function publish<To extends Name>(to: To, event: Events[`onceflow:${To}`]): void {
  (channels[to] as Channel).publish(Object.freeze(event));
}
