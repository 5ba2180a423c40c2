import type { Trial } from "../../../core/runs/operation.js";
import type { JournalEntry } from "../../../core/runs/run.js";
import { stepIdOf } from "../../../workflow/journal/identity.js";
import type { JournalFacts } from "./journal-facts.js";

/** Who wrote a journal entry: the owner of the run, a late body or operator after its end, or an operator's action. */
type Author = "owner" | "late" | "operator";

/** The observer's own model of a run, built only from operations and answers, without code of the store. */
export interface KnownRun {
  readonly id: string;
  readonly creator: string;
  readonly parent: string | null;
  /** Distinguishes runs that had the same id one after the other: an operator has deleted the earlier ones. */
  readonly incarnation: number;
  /** The run of which this one is a fork, with the calls that were copied from it. */
  readonly origin: { readonly run: KnownRun; readonly copied: ReadonlySet<string>; readonly sameKeys: boolean } | undefined;
  readonly entries: (JournalEntry & { readonly by: Author })[];
  /** How the run has ended, each time. */
  readonly ends: { readonly status: string; readonly output: string | null }[];
  readonly journal: JournalFacts;
  readonly mailKeys: Set<string>;
  /** The owner in each epoch, and the number of journal entries when it got the run. */
  readonly owners: Map<number, { readonly owner: string; readonly entries: number }>;
  owner: string | null;
  epoch: number;
  /** The claim of this epoch took the run from an owner whose lease had expired. */
  lapsed: boolean;
  leaseUntil: number;
  wakeAt: number | null;
  /** Mail has arrived since the release. */
  woken: boolean;
  ended: boolean;
  /** Deaths of owners, as counted by claims and owners. */
  trial: Trial;
  /** Workers that must not claim the run before this time. */
  avoid: { readonly workers: readonly string[]; readonly until: number } | undefined;
}

/** The step id of a call: in a fork, the calls that were copied have those of the original. */
export function stepIdIn({ id, origin }: Pick<KnownRun, "id" | "origin">, call: string): string {
  if (origin !== undefined && (origin.sameKeys || origin.copied.has(call))) return stepIdIn(origin.run, call);
  return stepIdOf(id, call);
}
