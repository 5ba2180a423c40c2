import { actOnAll, type BulkProgress, type BulkResult } from "../../../operate/bulk.js";
import { exitFound } from "../../exit-codes.js";
import { withOperations } from "../../operations/open-operations.js";
import type { Facts, Operations, RunCounts, RunFilter } from "../../operations/operations.js";
import { counted, note, print, printJson, table } from "../../output.js";
import { isConfirmed } from "../../terminal/ask.js";
import { shellWord } from "../../terminal/shell-word.js";
import { untilStopped } from "../../until-stopped.js";
import type { ActCommandOptions } from "./act-options.js";
import type { RunActionSpec } from "./action-specs.js";
import { filterOf } from "./filter-options.js";

/** Actions that mean something for one status only. */
const impliedStatus = { retry: "failed", resume: "paused" } as const satisfies Partial<Record<RunActionSpec["name"], string>>;

/** Acts on all runs of a filter: first a count and a question, then batches. Ctrl-C stops after the current batch. */
export async function actOnFilter({ name }: RunActionSpec, request: Facts, options: ActCommandOptions): Promise<void> {
  const { dryRun = false, yes, json, limit, cursor, actionId } = options;
  const { [name as "retry"]: implied } = impliedStatus as Partial<typeof impliedStatus>;
  const filter: RunFilter = { ...(implied && { status: implied }), ...filterOf(options) };
  await withOperations(options, async (operations) => {
    const counts = await operations.runs.count(filter);
    if (!json) note(countText(counts));
    const what = `${name} these runs${limit === undefined ? "" : ` (at most ${limit})`}`;
    if (!dryRun && !(await isConfirmed({ what, yes }))) return note("nothing was done");
    const stop = untilStopped();
    const aborted = new AbortController();
    void stop.asked.then(() => {
      note("stopping after this batch");
      aborted.abort();
    });
    try {
      const result = await actOnAll(targetOf(operations, { name, filter, request }), {
        action: name,
        status: filter.status,
        actionId,
        cursor,
        max: dryRun ? Math.min(limit ?? dryRunMax, dryRunMax) : limit,
        dryRun,
        signal: aborted.signal,
        onBegin: (id) =>
          dryRun || note(`action id ${id}: if this is interrupted, the same command with --action-id ${id} does nothing twice`),
        onBatch: (progress) => note(progressText(progress, dryRun)),
      });
      report(result, { counts, options, name });
    } finally {
      stop.forget();
    }
  });
}

/** A dry run asks for each of the first runs whether the action would be refused. */
const dryRunMax = 100;

interface BulkOf {
  readonly name: RunActionSpec["name"];
  readonly filter: RunFilter;
  readonly request: Facts;
}

function targetOf({ runs }: Operations, { name, filter, request }: BulkOf): Parameters<typeof actOnAll>[0] {
  return {
    list: (page) => runs.list({ ...filter, ...page }),
    act: (id, own) => runs.act(name, id, { ...request, ...own }),
  };
}

function countText(counts: RunCounts): string {
  const all = Object.entries(counts);
  const total = all.reduce((sum, [, { count }]) => sum + count, 0);
  const more = all.some(([, { capped }]) => capped) ? "+" : "";
  const parts = all.map(([status, { count, capped }]) => `${count}${capped ? "+" : ""} ${status}`);
  return `${total}${more} ${total === 1 ? "run matches" : "runs match"}${parts.length === 0 ? "" : `: ${parts.join(", ")}`}`;
}

function progressText({ listed, done, repeated, changed, skipped, refused }: BulkProgress, dryRun: boolean): string {
  const parts = [
    [done, dryRun ? "to do" : "done"],
    [repeated, "done before"],
    [changed, "changed meanwhile"],
    [skipped, "skipped"],
    [refused, dryRun ? "to be refused" : "refused"],
  ] as const;
  return [counted(listed, "run"), ...parts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`)].join(", ");
}

interface Report {
  readonly counts: RunCounts;
  readonly options: ActCommandOptions;
  readonly name: string;
}

function report(result: BulkResult, { counts, options, name }: Report): void {
  const { interrupted, dryRun, refusals, refused, actionId, cursor, listed } = result;
  const stopped = interrupted !== undefined && !(dryRun && interrupted === "limit");
  if (options.json) {
    const why = interrupted instanceof Error ? interrupted.message : interrupted;
    printJson({ ok: !(interrupted instanceof Error) && refused === 0, ...result, counts, interrupted: why });
  } else {
    print(`${dryRun ? `dry run, nothing was done; otherwise, of the first ${listed}: ` : `${name}: `}${progressText(result, dryRun)}`);
    if (refusals.length > 0)
      print(
        `\n${table(
          ["ID", "CODE", "REFUSED BECAUSE"],
          refusals.map(({ runId, code, message }) => [runId, code, message]),
        )}`,
      );
    if (refused > refusals.length) note(`${refused - refusals.length} more refusals are not shown`);
  }
  if (stopped) note(`to continue: ${commandToContinue({ name, options, actionId, cursor })}`);
  if (refused > 0) process.exitCode = exitFound;
  if (interrupted instanceof Error) throw interrupted;
}

interface Continuation {
  readonly name: string;
  readonly options: ActCommandOptions;
  readonly actionId: string;
  readonly cursor: string | undefined;
}

/** The same command line, with the id of the action and the place. */
function commandToContinue({ name, options, actionId, cursor }: Continuation): string {
  const { json: _json, cursor: _cursor, actionId: _id, ...given } = options as Facts;
  const all: Facts = { ...given, actionId, cursor };
  const words = Object.entries(all).flatMap(([option, value]) => {
    const flag = `--${option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    if (value === true) return [flag];
    const values = Array.isArray(value) ? (value as unknown[]) : [value];
    return values.filter((each) => each !== undefined).map((each) => `${flag}=${textOf(option, each)}`);
  });
  return ["onceflow runs", name, ...words.map(shellWord)].join(" ");
}

function textOf(option: string, value: unknown): string {
  if (value instanceof Date) return value.toISOString();
  if (option === "cleanup" || option === "wait") return `${String(value)}ms`;
  if (option === "attribute") {
    const { name, value: text } = value as { readonly name: string; readonly value: unknown };
    return `${name}=${JSON.stringify(text)}`;
  }
  return String(value);
}
