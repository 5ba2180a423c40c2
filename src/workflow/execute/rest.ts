import type { Then } from "../../core/runs/operation.js";
import type { Execution } from "./execution.js";

/** A timer that is nearer than this is waited for in memory; for a later one the run leaves it. */
const keepMs = 1000;
/** How long a run that waits for a hook or a child stays in memory, in case it comes soon. */
const idleMs = 200;

/** What a run does that has nothing to do: it waits here for what comes soon, and leaves for what comes later. */
export class Rest {
  readonly #execution: Execution;
  #idleSince: number | undefined;
  #cancelTimer: (() => void) | undefined;

  constructor(execution: Execution) {
    this.#execution = execution;
  }

  /** How to leave, when there is nothing to do here for a while. `drafted`: something is to be committed anyway. */
  leaving({ busy, drafted }: { readonly busy: boolean; readonly drafted: boolean }): Then | undefined {
    const { host, store, hooks, children, ending } = this.#execution;
    const idleSince = this.#idleSince;
    this.#idleSince = undefined;
    if (busy) return undefined;
    const unknown = [...this.#execution.calls.open].filter((call) => call.state === "unknown");
    const listening = !ending.over && (hooks.listening || children.waiting);
    const wakeAt = this.#wakeAt();
    // It waits for something that is not ours: a promise of its own making. It stays.
    if (wakeAt === undefined && !listening && unknown.length === 0) return undefined;
    // A worker with no room must not keep it: the run that it waits for may need that room.
    if (wakeAt !== undefined && wakeAt - host.now() <= keepMs && !host.crowded()) return undefined;
    if (listening && unknown.length === 0 && !host.crowded()) {
      this.#idleSince = idleSince ?? store.clock.now();
      if (drafted || store.clock.now() - this.#idleSince < idleMs) return undefined;
    }
    const trouble = unknown.map((call) => `step "${call.definition.name}" (${call.stepId}), attempt ${call.attempt}: ${call.doubt}`);
    const status = unknown.length > 0 ? ("unknown" as const) : ("running" as const);
    return { kind: "release", wakeAt: wakeAt ?? null, status, trouble: trouble.length > 0 ? trouble.join("; ") : null };
  }

  /** Waits in memory for the next thing that time brings. */
  wait(): void {
    const { host, store } = this.#execution;
    this.stop();
    const next = this.#nextTimer();
    const idleUntil = this.#idleSince === undefined ? undefined : idleMs - (store.clock.now() - this.#idleSince);
    const waits = [next === undefined ? undefined : next - host.now(), idleUntil].filter((ms) => ms !== undefined);
    if (waits.length === 0) return;
    this.#cancelTimer = store.clock.after(Math.max(0, Math.ceil(Math.min(...waits))), () => {
      this.fire();
      this.#execution.touch();
    });
  }

  stop(): void {
    this.#cancelTimer?.();
  }

  /** Whatever is due. */
  fire(): void {
    const now = this.#execution.host.now();
    if (!this.#execution.ending.over) this.#execution.sleeps.fire(now);
    for (const call of this.#execution.calls.open) if (call.dueAt !== undefined && call.dueAt <= now) call.due();
  }

  #wakeAt(): number | undefined {
    const { host, children, ending } = this.#execution;
    const next = this.#nextTimer();
    // Somebody else's run is awaited, which sends no mail: it has to be looked at.
    return children.elsewhere && !ending.over ? Math.min(next ?? Number.POSITIVE_INFINITY, host.now() + keepMs) : next;
  }

  #nextTimer(): number | undefined {
    const { sleeps, ending } = this.#execution;
    let next = ending.over ? undefined : sleeps.next();
    for (const { dueAt } of this.#execution.calls.open) if (dueAt !== undefined && (next === undefined || dueAt < next)) next = dueAt;
    return next;
  }
}
