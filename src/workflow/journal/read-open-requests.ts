import type { Store } from "../../core/store/store.js";
import { decodeEvents } from "./codec.js";
import { OpenRequests } from "./open-requests.js";

const pageMax = 1000;

interface OpenJournal {
  readonly open: OpenRequests;
  /** When its last entry was written, on the store's clock. Undefined: it has none. */
  readonly lastAt: number | undefined;
}

/** What a run waits for, by its journal. Undefined: the journal is longer than `entriesMax`. */
export async function readOpenRequests(store: Store, run: string, entriesMax = Number.POSITIVE_INFINITY): Promise<OpenJournal | undefined> {
  const open = new OpenRequests();
  let lastAt: number | undefined;
  for (let after = 0; ; ) {
    const entries = await store.runs.journal(run, after, pageMax);
    for (const { events } of entries) for (const event of decodeEvents(events)) open.note(event);
    const last = entries.at(-1);
    lastAt = last?.at ?? lastAt;
    after = last?.seq ?? after;
    if (entries.length < pageMax) return { open, lastAt };
    if (after > entriesMax) return undefined;
  }
}
