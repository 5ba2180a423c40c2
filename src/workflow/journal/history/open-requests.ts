import type { AttemptEvent, Event } from "../event.js";

export interface OpenStep {
  readonly id: string;
  readonly attempt: number;
  readonly state: "executes" | "retries" | "doubts";
}

/** Requests of a run that have no answer yet, according to its journal. */
export class OpenRequests {
  /** The time at which each sleep ends, by its id. */
  readonly sleeps = new Map<string, number>();
  /** Tokens, by the hook's id. */
  readonly hooks = new Map<string, string>();
  /** Run ids, by the request's id. */
  readonly children = new Map<string, string>();
  readonly steps = new Map<string, OpenStep>();
  /** Requests for children whose result the code awaits. Journaled only for children whose id the code chose. */
  readonly awaited = new Set<string>();
  readonly #runOf = new Map<string, string>();

  constructor(events: Iterable<Event> = []) {
    for (const event of events) this.note(event);
  }

  note(event: Event): unknown {
    switch (event.type) {
      case "sleep":
        return this.sleeps.set(event.id, event.until);
      case "woke":
        return this.sleeps.delete(event.id);
      case "hook":
        return this.hooks.set(event.id, event.token);
      case "drop":
        return this.hooks.delete(event.id);
      case "hooked":
        return event.conflict ? this.hooks.delete(event.id) : undefined;
      case "child":
        this.#runOf.set(event.id, event.run);
        return this.children.set(event.id, event.run);
      case "cancelled":
        return this.#closeCancelled(event.id);
      case "started":
        return event.found === "refused" ? this.children.delete(event.id) : undefined;
      case "await":
        return this.awaited.add(event.id);
      case "ended":
        return this.#closeChild(event.id);
      case "step":
        return this.#noteStep(event, "executes");
      case "doubt":
        return this.#noteStep(event, "doubts");
      case "done":
        return this.steps.delete(event.id);
      case "fail":
        return event.retryAt === null ? this.steps.delete(event.id) : this.#noteStep(event, "retries");
      default:
        return undefined;
    }
  }

  #noteStep({ id, attempt }: AttemptEvent, state: OpenStep["state"]): void {
    this.steps.set(id, { id, attempt, state });
  }

  /** The code no longer waits for the request. A hook stays open, a child goes on, and an unknown outcome stays unknown. */
  #closeCancelled(id: string): void {
    this.sleeps.delete(id);
    this.awaited.delete(id);
    if (this.steps.get(id)?.state !== "doubts") this.steps.delete(id);
  }

  /** If the code started the same run id twice, there is one end, journaled under the first request. */
  #closeChild(id: string): void {
    const run = this.#runOf.get(id);
    for (const [request, other] of this.children) if (other === run) this.children.delete(request);
  }
}
