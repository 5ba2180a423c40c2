import type { Event } from "./event.js";

/** A description of an event for error messages. */
export function describe(event: Event): string {
  switch (event.type) {
    case "step":
      return `step ${event.id}`;
    case "mismatch":
      return `the rejection of ${event.id}`;
    case "done":
      return `the result of step ${event.id}`;
    case "fail":
      return `the failure of step ${event.id}`;
    case "doubt":
      return `the unknown outcome of step ${event.id}`;
    case "sleep":
      return event.id;
    case "woke":
      return `the end of ${event.id}`;
    case "hook":
      return `${event.id} with the token "${event.token}"`;
    case "hooked":
      return `whether ${event.id} is in conflict`;
    case "got":
      return `a payload for ${event.id}`;
    case "drop":
      return `the end of ${event.id}`;
    case "child":
      return `child ${event.id} of workflow "${event.workflow}"`;
    case "started":
      return `the answer to the start of ${event.id}`;
    case "await":
      return `the wait for ${event.id}`;
    case "write":
      return `${event.id} (${event.kind})`;
    case "attributes":
      return `the change of attributes ${event.id}`;
    case "ended":
      return `the end of child ${event.id}`;
    case "aborted":
      return `the abort by ${event.id}`;
    case "stop":
      return "the request to cancel";
    case "cancelled":
      return `the cancellation of ${event.id}`;
    case "cancel":
      return "the cancellation";
    case "metadata":
      return `the metadata of ${event.id}`;
    case "pause":
      return "a pause";
    case "resume":
      return "the end of a pause";
    case "retry":
      return "a retry";
    case "fork":
      return `the fork from run "${event.run}"`;
    case "accept":
      return `the acceptance of step ${event.id}`;
    case "park":
      return "mail left unread while the run is set aside";
    case "unpark":
      return "the continuation of a run that was set aside";
    case "fence":
      return "a transaction that was not committed";
    case "claim":
      return `a claim by ${event.owner}`;
    case "cleared":
      return "the end of its quarantine";
    case "end":
      return `the end (${event.status})`;
  }
}
