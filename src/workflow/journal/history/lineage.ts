import type { Store } from "../../../core/store/store.js";
import { decodeEvents } from "../codec.js";
import { type Fork, isRequest } from "../event.js";
import { stepIdOf } from "../identity.js";

/** The part of a fork's journal that was copied from another run. */
interface Copy {
  /** The run that executed it: its random numbers and UUIDs derive from this id. */
  readonly run: string;
  readonly requests: readonly string[];
  /** Number of deliveries up to the end of this part. */
  readonly deliveries: number;
}

/** How far a replay has come. */
interface Progress {
  /** The journal has this request, and the code has not made it again yet. */
  has(request: string): boolean;
  readonly delivered: number;
}

/**
 * From which runs the beginning of a journal was copied. A fork is a new run, but what it has in common with the original must look
 * the same to its code: the same UUIDs, random numbers and step ids.
 */
export class Lineage {
  /** The fork of a fork has several, oldest first. */
  #copies: Copy[] = [];
  /** The run whose step ids a copied call has. */
  #keysOfCopied: Map<string, string> | undefined;
  /** The run whose step ids the calls after the last copy have, if it is not this one. */
  #keys: string | undefined;

  add({ run, sameKeys }: Fork, requests: Iterable<string>, deliveries: number): void {
    const keys = this.#keys ?? run;
    this.#keysOfCopied ??= new Map();
    const known = this.#keysOfCopied;
    const fresh = [...requests].filter((id) => !known.has(id));
    for (const id of fresh) known.set(id, keys);
    this.#copies.push({ run, requests: fresh, deliveries });
    this.#keys = sameKeys ? keys : undefined;
  }

  /** The stepId of a call of this run. */
  stepIdOf(run: string, call: string): string {
    return stepIdOf(this.#keysOfCopied?.get(call) ?? this.#keys ?? run, call);
  }

  /**
   * The run from whose id the next random number derives: that of the original until the code has made all copied requests again and has all
   * copied deliveries.
   */
  seedOf(run: string, progress: Progress): string {
    while (this.#copies[0] !== undefined && isOver(this.#copies[0], progress)) this.#copies.shift();
    return this.#copies[0]?.run ?? run;
  }

  /** For another replay of the same journal. */
  copy(): Lineage {
    const copy = new Lineage();
    copy.#copies = [...this.#copies];
    copy.#keysOfCopied = this.#keysOfCopied && new Map(this.#keysOfCopied);
    copy.#keys = this.#keys;
    return copy;
  }
}

function isOver({ requests, deliveries }: Copy, progress: Progress): boolean {
  return progress.delivered >= deliveries && !requests.some((id) => progress.has(id));
}

/** Reads from which runs a journal was copied. All that was copied is in the first entry. */
export async function readLineage(store: Store, run: string): Promise<Lineage> {
  const lineage = new Lineage();
  const [first] = await store.runs.journal(run, 0, 1);
  const events = first === undefined ? [] : decodeEvents(first.events);
  for (const [i, event] of events.entries()) {
    if (event.type !== "fork") continue;
    const requests = events.slice(0, i).flatMap((each) => (isRequest(each) ? [each.id] : []));
    lineage.add(event, requests, 0);
  }
  return lineage;
}
