import { AssertionError } from "node:assert";
import { inShort } from "../../core/errors/in-short.js";
import { hasEnded } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { decode } from "../../core/values/codec.js";
import { decodeError } from "../../core/values/stored-error.js";
import { definedWorkflows, workflowNamed } from "../../workflow/define/definition.js";
import { loadAside } from "../../workflow/journal/aside.js";
import type { EffectLedger } from "../effect-ledger.js";
import { endsAs, type Recorded, replayOn } from "../replay-journal.js";
import type { StepExecution } from "./step-execution.js";

interface Failure {
  readonly message: string;
  readonly actual: unknown;
  readonly expected: unknown;
  /** The assertion that failed; the stack begins at its caller. */
  readonly from: (...args: never[]) => unknown;
}

function failed({ from, ...failure }: Failure): AssertionError {
  return new AssertionError({ ...failure, operator: from.name, stackStartFn: from });
}

export function expectCalls(step: string, found: readonly StepExecution[], expected: number): void {
  if (found.length === expected) return;
  const rows = found.map(({ runId, stepId, attempt, at, args }) => [runId, stepId, String(attempt), at.toISOString(), inShort(args)]);
  const table = tableOf([["run", "stepId", "attempt", "at", "arguments"], ...rows]);
  const message = `step "${step}": expected ${executions(expected)}, got ${found.length}\n${table}`;
  throw failed({ message, actual: found.length, expected, from: expectCalls });
}

/** The counts that `WorkflowTest.expectEffect` compares. Give at least one of them. */
export interface ExpectedEffect {
  /** Number of times that the effect was applied. */
  readonly applied?: number;
  /** Number of calls that reached the provider. */
  readonly calls?: number;
}

export function expectEffect(effects: EffectLedger, key: string, expected: ExpectedEffect): void {
  const actual = { applied: effects.applied(key), calls: effects.rawCalls(key) };
  if (actual.applied === (expected.applied ?? actual.applied) && actual.calls === (expected.calls ?? actual.calls)) return;
  const rows = effects
    .calls(key)
    .map(({ attempt, at, applied }) => [String(attempt ?? ""), new Date(at).toISOString(), applied ? "yes" : "no"]);
  const others = effects.keys().filter((other) => other !== key);
  const known = rows.length > 0 || others.length === 0 ? "" : `\nother keys: ${others.slice(0, 20).join(", ")}`;
  const message =
    `effect "${key}": expected ${describeCounts(expected)}; got ${describeCounts(actual)}\n` +
    `${tableOf([["attempt", "at", "applied"], ...rows])}${known}`;
  throw failed({ message, actual, expected, from: expectEffect });
}

/** Replays the run's code on its journal from the start: the code must match the journal and end as the run did. */
export async function expectReplay({ run, journal, store }: Recorded & { readonly store: Store }): Promise<void> {
  const workflow = workflowNamed(run.workflow, definedWorkflows());
  const actual = workflow
    ? await replayOn(workflow, { run, journal, store })
    : { kind: "diverged" as const, why: `workflow "${run.workflow}" is not defined in this process` };
  const { status } = run;
  const output = await loadAside(store, run.id, run.output);
  const expected = hasEnded(status) ? { kind: "ended" as const, status, output } : { kind: "open" as const };
  const same = expected.kind === "ended" ? actual.kind === "ended" && endsAs(actual, expected) : actual.kind === "open";
  if (same) return;
  const how =
    actual.kind === "diverged" ? actual.why : actual.kind === "open" ? "the code continues after the journal ends" : outcomeOf(actual);
  const was = expected.kind === "ended" ? outcomeOf(expected) : "the run has not ended";
  const rows = journal.map(({ seq, events }) => [String(seq), events.slice(0, 160)]);
  const table = tableOf([["entry", "events"], ...rows]);
  const message = `the replay of run "${run.id}" differs from its journal\nreplay: ${how}\njournal: ${was}\n${table}`;
  throw failed({ message, actual, expected, from: expectReplay });
}

function outcomeOf({ status, output }: { readonly status: string; readonly output: string | null }): string {
  if (output === null) return status;
  return `${status} with ${status === "failed" ? decodeError(output).message : inShort(decode(output))}`;
}

function describeCounts({ applied, calls }: ExpectedEffect): string {
  return [applied === undefined ? [] : [`applied ${applied}`], calls === undefined ? [] : [`calls ${calls}`]].flat().join(", ");
}

function executions(n: number): string {
  return n === 1 ? "1 execution" : `${n} executions`;
}

const rowsMax = 50;

function tableOf([head = [], ...rows]: readonly (readonly string[])[]): string {
  const shown = [head, ...rows.slice(0, rowsMax)];
  const widths = head.map((_, column) => Math.max(...shown.map((row) => row[column]?.length ?? 0)));
  const lines = shown.map((row) => `  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ")}`.trimEnd());
  return [...lines, ...(rows.length > rowsMax ? [`  … and ${rows.length - rowsMax} more`] : [])].join("\n");
}
