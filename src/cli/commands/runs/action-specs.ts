import type { Command } from "commander";
import { InvalidInputError } from "../../../exports/index.js";
import type { BulkAction } from "../../../operate/bulk.js";
import type { Facts } from "../../operations/operations.js";
import { timeOf } from "../../output.js";
import { durationMs } from "../../time-option.js";

/** An action on runs that takes ids, or a filter. */
export interface RunActionSpec {
  readonly name: BulkAction;
  readonly description: string;
  /** It cannot be undone: a reason is required, and it is confirmed. */
  readonly isDestructive: boolean;
  /** Adds the options that only this action has. */
  readonly addOptions: (command: Command) => Command;
  /** The members of the request for these options. */
  readonly requestOf: (options: Facts) => Facts;
  /** What the action has done, or would do. */
  readonly textOf: (answer: Facts) => string;
}

const none = { addOptions: (command: Command) => command, requestOf: () => ({}) };

export const runActionSpecs: readonly RunActionSpec[] = [
  {
    name: "cancel",
    description: "Cancel runs; their code can clean up",
    isDestructive: false,
    addOptions: (command) => command.option("--cleanup <duration>", "how long the code may clean up (default: 15m)", durationMs),
    requestOf: ({ cleanup }) => members({ cleanupMs: cleanup }),
    textOf: endText,
  },
  {
    ...none,
    name: "terminate",
    description: "End runs as cancelled at once; their code cannot clean up",
    isDestructive: true,
    textOf: endText,
  },
  {
    name: "pause",
    description: "Pause runs: their code gets nothing until they are resumed",
    isDestructive: false,
    addOptions: (command) =>
      command.option("--wait <duration>", "how long to wait until the pause has taken effect (default: 5s; --all: 0s)", durationMs),
    requestOf: ({ wait, all }) => members({ waitMs: wait ?? (all ? 0 : undefined) }),
    textOf: ({ state }) => (state === "paused" ? "paused" : "pause requested; a worker has not taken the request yet"),
  },
  { ...none, name: "resume", description: "Resume paused runs", isDestructive: false, textOf: () => "resumed" },
  {
    name: "wake",
    description: "End sleeps of runs now; a parked, diverged or unknown run tries again",
    isDestructive: false,
    addOptions: (command) => command.option("--sleep <ids...>", 'only these sleeps, such as "sleep#0"'),
    requestOf: ({ sleep }) => members({ correlationIds: sleep }),
    textOf: ({ stoppedCount }) => `woken; sleeps that were ended: ${String(stoppedCount)}`,
  },
  {
    name: "retry",
    description: "Continue failed runs: the failed step runs again with the same stepId",
    isDestructive: false,
    addOptions: (command) =>
      command
        .option("--step <ids...>", "the failed steps to run again, by stepId or call id (required if several failed)")
        .option("--only-code", "retry no step: the code goes on from where it threw")
        .option("--force <ids...>", "forget these steps, children and hooks, which began after the failure"),
    requestOf: ({ step, onlyCode, force }) => {
      if (step !== undefined && onlyCode) throw new InvalidInputError("only-code", "--step and --only-code exclude each other");
      return members({ steps: onlyCode ? [] : step, force });
    },
    textOf: ({ steps, children }) => {
      const again = [...namesOf(steps, "callId"), ...namesOf(children)];
      return again.length === 0 ? "continues from where its code threw" : `runs again: ${again.join(", ")}`;
    },
  },
  {
    ...none,
    name: "delete",
    description: "Delete ended runs with their journals, values and streams; their ids can start again",
    isDestructive: true,
    textOf: ({ status }) => `deleted (it was ${String(status)}); its id can start again`,
  },
];

export const runActionNames: readonly string[] = [...runActionSpecs.map(({ name }) => name), "fork", "resolve"];

function endText({ state, noWorker, endsBy }: Facts): string {
  if (state === "ended") return "ended";
  if (!noWorker) return "requested; it ends when its code has cleaned up";
  const when = typeof endsBy === "string" ? ` at ${timeOf(endsBy)}` : "";
  return `requested; no live worker has its workflow, so it ends${when} without cleanup unless a worker comes before`;
}

const namesOf = (items: unknown, member?: string): string[] =>
  Array.isArray(items) ? items.map((item) => String(member === undefined ? item : (item as Facts)[member])) : [];

/** Without the members that are undefined. */
export function members(given: Facts): Facts {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}
