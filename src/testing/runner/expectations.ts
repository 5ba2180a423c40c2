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
  /** The function to blame: what is above it in the stack is ours. */
  readonly from: (...args: never[]) => unknown;
}

function failed({ from, ...failure }: Failure): AssertionError {
  return new AssertionError({ ...failure, operator: from.name, stackStartFn: from });
}

export function expectCalls(step: string, found: readonly StepExecution[], expected: number): void {
  if (found.length === expected) return;
  const rows = found.map(({ runId, stepId, attempt, at, args }) => [runId, stepId, String(attempt), at.toISOString(), inShort(args)]);
  const table = tableOf([["run", "stepId", "attempt", "at", "arguments"], ...rows]);
  const message = `step "${step}" was executed ${times(found.length)}, and ${times(expected)} was expected\n${table}`;
  throw failed({ message, actual: found.length, expected, from: expectCalls });
}

export interface ExpectedEffect {
  /** How often it took effect. */
  readonly applied?: number;
  /** How often the other side was called. */
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
    `the effect "${key}" was applied ${times(actual.applied)} in ${calls(actual.calls)}, and ${describeExpected(expected)} was expected\n` +
    `${tableOf([["attempt", "at", "applied"], ...rows])}${known}`;
  throw failed({ message, actual, expected, from: expectEffect });
}

/** Its code, from the start, on its journal: it must ask for the same things, and come to the same end. */
export async function expectReplay({ run, journal, store }: Recorded & { readonly store: Store }): Promise<void> {
  const workflow = workflowNamed(run.workflow, definedWorkflows());
  const actual = workflow
    ? await replayOn(workflow, { run, journal, store })
    : { kind: "diverged" as const, why: "its workflow is not defined here" };
  const { status } = run;
  const output = await loadAside(store, run.id, run.output);
  const expected = hasEnded(status) ? { kind: "ended" as const, status, output } : { kind: "open" as const };
  const same = expected.kind === "ended" ? actual.kind === "ended" && endsAs(actual, expected) : actual.kind === "open";
  if (same) return;
  const how = actual.kind === "diverged" ? actual.why : actual.kind === "open" ? "it goes on where the journal ends" : outcomeOf(actual);
  const was = expected.kind === "ended" ? outcomeOf(expected) : "it goes on";
  const rows = journal.map(({ seq, events }) => [String(seq), events.slice(0, 160)]);
  const message = `the replay of run "${run.id}" differs: ${how}; and its journal says: ${was}\n${tableOf([["entry", "events"], ...rows])}`;
  throw failed({ message, actual, expected, from: expectReplay });
}

function outcomeOf({ status, output }: { readonly status: string; readonly output: string | null }): string {
  if (output === null) return status;
  return `${status} with ${status === "failed" ? decodeError(output).message : inShort(decode(output))}`;
}

function describeExpected({ applied, calls: wanted }: ExpectedEffect): string {
  const parts = [applied === undefined ? [] : [`applied ${times(applied)}`], wanted === undefined ? [] : [calls(wanted)]].flat();
  return parts.join(" in ");
}

function times(n: number): string {
  return n === 0 ? "never" : n === 1 ? "once" : `${n} times`;
}

function calls(n: number): string {
  return n === 1 ? "1 call" : `${n} calls`;
}

const rowsMax = 50;

function tableOf([head = [], ...rows]: readonly (readonly string[])[]): string {
  const shown = [head, ...rows.slice(0, rowsMax)];
  const widths = head.map((_, column) => Math.max(...shown.map((row) => row[column]?.length ?? 0)));
  const lines = shown.map((row) => `  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ")}`.trimEnd());
  return [...lines, ...(rows.length > rowsMax ? [`  … and ${rows.length - rowsMax} more`] : [])].join("\n");
}
