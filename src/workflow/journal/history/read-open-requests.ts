import type { Store } from "../../../core/store/store.js";
import { decodeEvents } from "../codec.js";
import type { Event } from "../event.js";
import { OpenRequests } from "./open-requests.js";
import { withoutRetried } from "./retries.js";

const pageMax = 1000;

interface OpenJournal {
  readonly open: OpenRequests;
  /** When the last entry was written, on the store's clock. Undefined if there is none. */
  readonly lastAt: number | undefined;
}

/** Reads from the journal what a run waits for. Undefined if the journal has more than `entriesMax` entries. */
export async function readOpenRequests(store: Store, run: string, entriesMax = Number.POSITIVE_INFINITY): Promise<OpenJournal | undefined> {
  const events: Event[] = [];
  let lastAt: number | undefined;
  for (let after = 0; ; ) {
    const entries = await store.runs.journal(run, after, pageMax);
    events.push(...entries.flatMap((entry) => decodeEvents(entry.events)));
    const last = entries.at(-1);
    lastAt = last?.at ?? lastAt;
    after = last?.seq ?? after;
    if (entries.length < pageMax) return { open: new OpenRequests(withoutRetried(events)), lastAt };
    if (after > entriesMax) return undefined;
  }
}
