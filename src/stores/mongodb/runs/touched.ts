import type { LogEntry } from "../../../core/runs/log.js";
import type { RunOperation, StartRun } from "../../../core/runs/operation.js";
import { childKey } from "../../../core/runs/rules/then.js";
import type { RunRecord } from "../../../core/runs/run.js";
import type { LoadedRuns } from "../../shared/loaded-run-table.js";
import { RunWishes } from "../../shared/run-wishes.js";
import type { SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { loadChunks } from "./chunks.js";
import { entriesAfter, entryId, type HookDocument, mailId, type RunAndNow, runAndNow, toRun } from "./document.js";
import { withInputs } from "./load.js";
import { findLogged } from "./log.js";
import { createRun } from "./start.js";

/** The documents that an operation may touch, and the numbers of the runs that exist. */
export interface Touched {
  readonly loaded: LoadedRuns;
  readonly numbers: ReadonlyMap<string, string>;
}

/** Loads inside a transaction: if a document changes before it is written, MongoDB aborts the transaction. */
export async function loadTouched(collections: Collections, operation: RunOperation, options: SessionOption): Promise<Touched> {
  const wishes = new RunWishes(operation);
  const hooks = await findHooks(collections, wishes.tokens, options);
  if (operation.verb === "send" && "token" in operation.to)
    for (const hook of hooks) {
      wishes.runs.add(hook.run);
      wishes.mail.push({ run: hook.run, key: operation.key });
    }
  const logged = wishes.action === null ? undefined : await findLogged(collections, wishes.action, options);
  const found = await findRuns(collections, operation, wishes, logged, options);
  const numbers = new Map(found.documents.map((run) => [run._id, run.no]));
  const sought = [...wishes.chunks].filter(({ run }) => numbers.has(run) && run !== found.created);
  return {
    loaded: {
      now: found.documents.find(({ _id }) => operation.verb === "send" || _id === operation.id)?.now ?? 0,
      asked: wishes.runs,
      runs: found.records,
      entries:
        operation.verb === "act"
          ? await findLastEntries(collections, numbers, wishes, options)
          : await findEntries(collections, numbers, wishes, operation.verb === "appendLate", options),
      mail: await findMail(collections, numbers, wishes, options),
      logged,
      // A hook of an earlier run with the same id does not belong to this one.
      hooks: hooks.map(({ _id: token, run, no, about }) => ({ token, about, run: (numbers.get(run) ?? no) === no ? run : "" })),
      ...(await loadChunks(collections, numbers, sought, operation.verb === "write", options)),
    },
    numbers,
  };
}

interface Found {
  readonly documents: readonly RunAndNow[];
  readonly records: readonly RunRecord[];
  /** The run that a start has just created to get the server's time. For the rules it does not exist yet. */
  readonly created?: string;
}

async function findRuns(
  collections: Collections,
  operation: RunOperation,
  wishes: RunWishes,
  logged: LogEntry | undefined,
  options: SessionOption,
): Promise<Found> {
  const start = logged === undefined ? startOf(operation) : undefined;
  const made = start && (await createRun(collections, start, options));
  const ids = [...wishes.runs].filter((id) => id !== made?.run._id);
  const documents = made ? [made.run] : [];
  if (ids.length > 0) documents.push(...(await findByIds(collections, ids, options)));
  const parent = documents.find(({ _id }) => _id === wishes.ends)?.parent ?? null;
  if (wishes.ends !== null && parent !== null) {
    wishes.mail.push({ run: parent, key: childKey(wishes.ends) });
    if (!wishes.runs.has(parent)) documents.push(...(await findByIds(collections, [parent], options)));
    wishes.runs.add(parent);
  }
  const there = documents.filter((run) => !(made?.created && run === made.run));
  // The input is returned only to a start that finds an existing run.
  const records = there.map((run) => toRun(run, run.input ?? ""));
  const seen = made && !made.created ? await withInputs(collections, [made.run], options) : [];
  const whole = new Map(seen.map((run) => [run.id, run]));
  return { documents, records: records.map((run) => whole.get(run.id) ?? run), ...(made?.created && { created: made.run._id }) };
}

function startOf(operation: RunOperation): StartRun | undefined {
  if (operation.verb === "start") return operation;
  return operation.verb === "act" && operation.change.kind === "start" ? operation.change.start : undefined;
}

async function findByIds({ runs }: Collections, ids: readonly string[], options: SessionOption): Promise<RunAndNow[]> {
  return (await runs.find({ _id: { $in: [...ids] } }, { ...options, projection: runAndNow }).toArray()) as unknown as RunAndNow[];
}

async function findHooks({ hooks }: Collections, tokens: ReadonlySet<string>, options: SessionOption): Promise<HookDocument[]> {
  return tokens.size === 0 ? [] : await hooks.find({ _id: { $in: [...tokens] } }, options).toArray();
}

/** The entry with the number of the new one, and the one before it. A journal has no gaps, so later entries do not matter. */
async function findEntries(
  { journal }: Collections,
  numbers: ReadonlyMap<string, string>,
  { entries }: RunWishes,
  withEvents: boolean,
  options: SessionOption,
): Promise<LoadedRuns["entries"]> {
  const runOf = new Map<string, string>();
  for (const { run, seq } of entries) {
    const no = numbers.get(run);
    if (no !== undefined) for (const at of [seq - 1, seq]) if (at > 0) runOf.set(entryId(no, at), run);
  }
  if (runOf.size === 0) return [];
  const projection = { seq: 1, epoch: 1, ...(withEvents && { events: 1 }) };
  const found = await journal.find({ _id: { $in: [...runOf.keys()] } }, { ...options, projection }).toArray();
  return found.map(({ _id, seq, epoch, events }) => ({ run: runOf.get(_id) ?? "", seq, epoch, events: events ?? null }));
}

/** The last entry of each run: an action compares its number with the one on which it was decided. */
async function findLastEntries(
  { journal }: Collections,
  numbers: ReadonlyMap<string, string>,
  { entries }: RunWishes,
  options: SessionOption,
): Promise<LoadedRuns["entries"]> {
  const last = entries.map(async ({ run }) => {
    const no = numbers.get(run);
    const found = no === undefined ? [] : await journal.find(entriesAfter(no, 0), options).sort({ _id: -1 }).limit(1).toArray();
    return found.map(({ seq, epoch }) => ({ run, seq, epoch, events: null }));
  });
  return (await Promise.all(last)).flat();
}

async function findMail(
  { mail }: Collections,
  numbers: ReadonlyMap<string, string>,
  wishes: RunWishes,
  options: SessionOption,
): Promise<LoadedRuns["mail"]> {
  const asked = new Map(wishes.mail.filter(({ run }) => numbers.has(run)).map((one) => [mailId(numbers.get(one.run) ?? "", one.key), one]));
  if (asked.size === 0) return [];
  const found = await mail.find({ _id: { $in: [...asked.keys()] } }, { ...options, projection: { seq: 1 } }).toArray();
  return found.flatMap(({ _id, seq }) => {
    const one = asked.get(_id);
    return one === undefined ? [] : [{ ...one, seq }];
  });
}
