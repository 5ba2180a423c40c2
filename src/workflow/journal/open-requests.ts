import type { Event } from "./event.js";

export interface OpenStep {
  readonly id: string;
  readonly attempt: number;
  readonly state: "executes" | "retries" | "doubts";
}

/** What the code of a run has asked for and has not been answered yet, by its journal. */
export class OpenRequests {
  /** The time at which each sleep ends, by its id. */
  readonly sleeps = new Map<string, number>();
  /** Tokens, by the hook's id. */
  readonly hooks = new Map<string, string>();
  /** Run ids, by the request's id. */
  readonly children = new Map<string, string>();
  readonly steps = new Map<string, OpenStep>();
  /** Requests for children whose result the code has asked for. Only noted of children with an id that the code chose. */
  readonly awaited = new Set<string>();
  readonly #runOf = new Map<string, string>();

  constructor(events: Iterable<Event> = []) {
    for (const event of events) this.note(event);
  }

  note(event: Event): unknown {
    const [type, id] = event;
    switch (type) {
      case "sleep":
        return this.sleeps.set(id, event[3]);
      case "woke":
        return this.sleeps.delete(id);
      case "hook":
        return this.hooks.set(id, event[3]);
      case "drop":
        return this.hooks.delete(id);
      case "hooked":
        return event[3] ? this.hooks.delete(id) : undefined;
      case "child":
        this.#runOf.set(id, event[3]);
        return this.children.set(id, event[3]);
      case "started":
        return event[3] === "refused" ? this.children.delete(id) : undefined;
      case "await":
        return this.awaited.add(id);
      case "ended":
        return this.#closeChild(id);
      case "step":
        return this.steps.set(id, { id, attempt: event[3], state: "executes" });
      case "doubt":
        return this.steps.set(id, { id, attempt: event[3], state: "doubts" });
      case "done":
        return this.steps.delete(id);
      case "fail":
        return event[5] === null ? this.steps.delete(id) : this.steps.set(id, { id, attempt: event[3], state: "retries" });
      default:
        return undefined;
    }
  }

  /** A run that was started twice by its id ends once: the end is journaled under the first request. */
  #closeChild(id: string): void {
    const run = this.#runOf.get(id);
    for (const [request, other] of this.children) if (other === run) this.children.delete(request);
  }
}
