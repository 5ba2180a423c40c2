import type { Event } from "./event.js";

/** An event in words, for people who have to find out what went wrong. */
export function describe(event: Event): string {
  const [type, id] = event;
  switch (type) {
    case "step":
      return `step ${id}`;
    case "mismatch":
      return `the refusal of ${id}`;
    case "done":
      return `the result of step ${id}`;
    case "fail":
      return `the failure of step ${id}`;
    case "doubt":
      return `the doubt about step ${id}`;
    case "sleep":
      return id;
    case "woke":
      return `the end of ${id}`;
    case "hook":
      return `${id} with the token "${event[3]}"`;
    case "hooked":
      return `whether ${id} is in conflict`;
    case "got":
      return `a payload for ${id}`;
    case "drop":
      return `the end of ${id}`;
    case "child":
      return `child ${id} of workflow "${event[4]}"`;
    case "started":
      return `the answer to the start of ${id}`;
    case "await":
      return `the wait for ${id}`;
    case "write":
      return `${id} (${event[3]})`;
    case "ended":
      return `the end of child ${id}`;
    case "aborted":
      return `the abort by ${id}`;
    case "cancel":
      return "the cancellation";
    case "accept":
      return `the acceptance of step ${id}`;
    case "park":
      return "mail put aside until the code matches";
    case "unpark":
      return "mail that was put aside";
    case "fence":
      return "a transaction that was not committed";
    case "claim":
      return `a claim by ${id}`;
    case "cleared":
      return "the end of its time alone";
    case "end":
      return `the end (${id})`;
  }
}
