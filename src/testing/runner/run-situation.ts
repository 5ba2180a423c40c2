import type { JournalEntry, RunRecord, RunStatus } from "../../core/run.js";
import { hasEnded } from "../../core/run.js";
import type { Store } from "../../core/store.js";
import { decodeEvents, type Event } from "../../workflow/event.js";
import type { Recorded } from "../replay-journal.js";

const states = { executes: "executes", retries: "is to try again", doubts: "does not know what became of" };

interface OpenStep {
  readonly id: string;
  readonly attempt: number;
  readonly state: keyof typeof states;
}

/** What a run waits for, as its journal tells. */
export interface RunSituation {
  readonly id: string;
  readonly status: RunStatus;
  readonly sleeps: readonly { readonly id: string; readonly until: number }[];
  readonly hooks: readonly { readonly id: string; readonly token: string }[];
  readonly children: readonly string[];
  readonly steps: readonly OpenStep[];
  /** It goes on by itself: no sleep has to end, and nothing has to come from outside. */
  readonly goesOn: boolean;
}

export function situationOf({ run, journal }: Recorded): RunSituation {
  const [sleeps, hooks, children, steps] = [
    new Map<string, number>(),
    new Map<string, string>(),
    new Map<string, string>(),
    new Map<string, OpenStep>(),
  ];
  const note = (event: Event): unknown => {
    const [type, id] = event;
    switch (type) {
      case "sleep":
        return sleeps.set(id, event[3]);
      case "woke":
        return sleeps.delete(id);
      case "hook":
        return hooks.set(id, event[3]);
      case "drop":
        return hooks.delete(id);
      case "hooked":
        return event[3] ? hooks.delete(id) : undefined;
      case "child":
        return children.set(id, event[3]);
      case "ended":
        return children.delete(id);
      case "step":
        return steps.set(id, { id, attempt: event[3], state: "executes" });
      case "doubt":
        return steps.set(id, { id, attempt: event[3], state: "doubts" });
      case "done":
        return steps.delete(id);
      case "fail":
        return event[5] === null ? steps.delete(id) : steps.set(id, { id, attempt: event[3], state: "retries" });
      default:
        return undefined;
    }
  };
  for (const { events } of journal) for (const event of decodeEvents(events)) note(event);
  const { id, status } = run;
  const moving = status === "pending" || (status === "running" && [...steps.values()].some(({ state }) => state !== "doubts"));
  return {
    id,
    status,
    sleeps: [...sleeps].map(([sleep, until]) => ({ id: sleep, until })).sort((a, b) => a.until - b.until),
    hooks: [...hooks].map(([hook, token]) => ({ id: hook, token })),
    children: [...children.values()],
    steps: [...steps.values()],
    goesOn: moving && !hasEnded(status),
  };
}

const pageMax = 1000;

/** The run with its whole journal; undefined when there is none. */
export async function recordOf(store: Store, id: string): Promise<Recorded | undefined> {
  const run: RunRecord | undefined = await store.runs.read(id);
  if (run === undefined) return undefined;
  const journal: JournalEntry[] = [];
  for (;;) {
    const page = await store.runs.journal(id, journal.at(-1)?.seq ?? 0, pageMax);
    journal.push(...page);
    if (page.length < pageMax) return { run, journal };
  }
}

/** One line for people. */
export function describeSituation({ id, status, sleeps, hooks, children, steps }: RunSituation): string {
  if (hasEnded(status)) return `run "${id}" is over: ${status}`;
  const waits = [
    ...sleeps.map(({ until }) => `sleeps until ${new Date(until).toISOString()}`),
    ...hooks.map(({ token }) => `has a hook with the token "${token}"`),
    ...children.map((child) => `has the child run "${child}"`),
    ...steps.map(({ id: step, attempt, state }) => `${states[state]} ${step} (attempt ${attempt})`),
  ];
  if (status === "pending") return `run "${id}" is pending: no worker has taken it, or its workflow is not one that the worker works on`;
  const is = status === "running" ? "" : ` is ${status}, and`;
  const nothing = "waits for nothing that the journal knows: a promise of its own making, or its next turn";
  return `run "${id}"${is} ${waits.length > 0 ? waits.join(", and ") : nothing}`;
}
