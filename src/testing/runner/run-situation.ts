import type { JournalEntry, RunRecord, RunStatus } from "../../core/runs/run.js";
import { hasEnded } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { decodeEvents } from "../../workflow/journal/codec.js";
import { OpenRequests, type OpenStep } from "../../workflow/journal/history/open-requests.js";
import { withoutRetried } from "../../workflow/journal/history/retries.js";
import type { Recorded } from "../replay-journal.js";

const states: Readonly<Record<OpenStep["state"], string>> = {
  executes: "executes",
  retries: "will retry",
  doubts: "does not know the outcome of",
};

/** What a run waits for, according to its journal. */
export interface RunSituation {
  readonly id: string;
  readonly status: RunStatus;
  readonly sleeps: readonly { readonly id: string; readonly until: number }[];
  readonly hooks: readonly { readonly id: string; readonly token: string }[];
  readonly children: readonly string[];
  readonly steps: readonly OpenStep[];
  /** True when the run continues without the end of a sleep and without a message from outside. */
  readonly goesOn: boolean;
}

export function situationOf({ run, journal }: Recorded): RunSituation {
  const { sleeps, hooks, children, steps } = new OpenRequests(withoutRetried(journal.flatMap(({ events }) => decodeEvents(events))));
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

/** Reads the run with its whole journal; undefined when there is no such run. */
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

/** Describes the situation in one line, for messages of failed assertions. */
export function describeSituation({ id, status, sleeps, hooks, children, steps }: RunSituation): string {
  if (hasEnded(status)) return `run "${id}" has ended: ${status}`;
  const waits = [
    ...sleeps.map(({ until }) => `sleeps until ${new Date(until).toISOString()}`),
    ...hooks.map(({ token }) => `has a hook with the token "${token}"`),
    ...children.map((child) => `has the child run "${child}"`),
    ...steps.map(({ id: step, attempt, state }) => `${states[state]} ${step} (attempt ${attempt})`),
  ];
  if (status === "pending") return `run "${id}" is pending: no worker has claimed it, or the worker does not run its workflow`;
  const is = status === "running" ? "" : ` is ${status}, and`;
  const nothing = "waits for something that is not in its journal: a promise that its code made, or its next turn";
  return `run "${id}"${is} ${waits.length > 0 ? waits.join(", and ") : nothing}`;
}
