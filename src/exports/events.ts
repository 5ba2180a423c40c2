/** Events of this process, on channels of `node:diagnostics_channel`: runs, step attempts, calls of `once`, deliveries, messages, requests, flushes, leases. */
export { eventNames } from "../core/events/channels.js";
export type {
  DeliveryEvent,
  EventName,
  Events,
  FlushEvent,
  LeaseEvent,
  MessageEvent,
  OnceAnswer,
  OnceEvent,
  RequestEvent,
  RunEvent,
  StepEvent,
} from "../core/events/event.js";
export { subscribe } from "../core/events/subscribe.js";
