import { closeSync, existsSync, openSync, readFileSync, writeSync } from "node:fs";
import { BSON } from "mongodb";
import type { Doc } from "./wire.js";

/** One version of a document, and the version before it, as long as an open transaction may still read that. */
interface Version {
  readonly doc: Doc | undefined;
  readonly at: number;
  readonly before: Version | undefined;
}

export interface Transaction {
  readonly snapshot: number;
  readonly writes: Map<string, Map<string, Doc | undefined>>;
  readonly locks: Set<string>;
  readonly ended: Promise<void>;
  end(): void;
}

/** Thrown before anything is changed: an open transaction has written the document. Wait until it has ended, and try again. */
export class Locked extends Error {
  readonly until: Promise<void>;
  constructor(until: Promise<void>) {
    super("locked");
    this.until = until;
  }
}

export class CommandError extends Error {
  readonly code: number;
  readonly codeName: string;
  readonly labels: readonly string[];
  readonly facts: Doc;
  constructor(code: number, codeName: string, message: string, labels: readonly string[] = [], facts: Doc = {}) {
    super(message);
    this.code = code;
    this.codeName = codeName;
    this.labels = labels;
    this.facts = facts;
  }
}

export interface Change {
  readonly ns: string;
  readonly id: string;
  readonly doc: Doc | undefined;
  readonly was: Doc | undefined;
}

/**
 * Documents in memory, with the isolation of MongoDB: snapshot isolation; the second writer of a document gets a conflict, or
 * waits if it is not in a transaction. Commits are in a log before they are acknowledged, and survive a SIGKILL. (Not a loss
 * of power: nothing is synced.)
 */
export class Engine {
  readonly #collections = new Map<string, Map<string, Version>>();
  readonly #locks = new Map<string, Transaction>();
  readonly #open = new Set<Transaction>();
  readonly #log: number;
  readonly watchers = new Set<(changes: readonly Change[]) => void>();
  #commits = 0;

  constructor(path: string) {
    if (existsSync(path)) this.#replay(readFileSync(path));
    this.#log = openSync(path, "a");
  }

  close(): void {
    closeSync(this.#log);
  }

  begin(): Transaction {
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const transaction = { snapshot: this.#commits, writes: new Map(), locks: new Set<string>(), ended, end };
    this.#open.add(transaction);
    return transaction;
  }

  get(ns: string, id: string, transaction?: Transaction): Doc | undefined {
    const own = transaction?.writes.get(ns);
    return own?.has(id) ? own.get(id) : seen(this.#collections.get(ns)?.get(id), transaction);
  }

  all(ns: string, transaction?: Transaction): Doc[] {
    const ids = new Set([...(this.#collections.get(ns)?.keys() ?? []), ...(transaction?.writes.get(ns)?.keys() ?? [])]);
    return [...ids].map((id) => this.get(ns, id, transaction)).filter((doc) => doc !== undefined);
  }

  /** Throws if one of these documents may not be written now. A command calls it for all its documents before its first write. */
  reserve(ns: string, ids: readonly string[], transaction?: Transaction): void {
    for (const id of ids) {
      const holder = this.#locks.get(`${ns}\0${id}`);
      if (transaction === undefined && holder !== undefined) throw new Locked(holder.ended);
      if (transaction === undefined || holder === transaction) continue;
      const newest = this.#collections.get(ns)?.get(id)?.at ?? 0;
      if (holder !== undefined || newest > transaction.snapshot)
        throw new CommandError(112, "WriteConflict", "Write conflict during plan execution", ["TransientTransactionError"]);
    }
  }

  write(ns: string, id: string, doc: Doc | undefined, transaction?: Transaction): void {
    this.reserve(ns, [id], transaction);
    if (transaction === undefined) return this.#commit([[ns, id, doc]]);
    const own = transaction.writes.get(ns) ?? new Map<string, Doc | undefined>();
    transaction.writes.set(ns, own.set(id, doc));
    transaction.locks.add(`${ns}\0${id}`);
    this.#locks.set(`${ns}\0${id}`, transaction);
  }

  commit(transaction: Transaction): void {
    const writes = [...transaction.writes].flatMap(([ns, own]) => [...own].map(([id, doc]) => [ns, id, doc] as const));
    this.abort(transaction);
    if (writes.length > 0) this.#commit(writes);
  }

  abort(transaction: Transaction): void {
    for (const lock of transaction.locks) this.#locks.delete(lock);
    this.#open.delete(transaction);
    transaction.end();
  }

  names(database: string): string[] {
    return [...this.#collections.keys()].filter((ns) => ns.startsWith(`${database}.`)).map((ns) => ns.slice(database.length + 1));
  }

  drop(named: (ns: string) => boolean): void {
    const dropped = [...this.#collections.keys()].filter(named);
    for (const ns of dropped) this.#collections.delete(ns);
    this.#save({ dropped });
  }

  #commit(writes: readonly (readonly [string, string, Doc | undefined])[]): void {
    const changes = writes.map(([ns, id, doc]) => ({ ns, id, doc, was: this.get(ns, id) }));
    this.#save({ writes: writes.map(([ns, id, doc]) => ({ ns, id, doc: doc ?? null })) });
    this.#apply(writes);
    for (const watcher of this.watchers) watcher(changes);
  }

  #apply(writes: readonly (readonly [string, string, Doc | undefined])[]): void {
    this.#commits += 1;
    for (const [ns, id, doc] of writes) {
      const collection = this.#collections.get(ns) ?? new Map<string, Version>();
      this.#collections.set(ns, collection);
      const before = this.#open.size > 0 ? collection.get(id) : undefined;
      if (doc === undefined && this.#open.size === 0) collection.delete(id);
      else collection.set(id, { doc, at: this.#commits, before });
    }
  }

  #save(entry: Doc): void {
    writeSync(this.#log, BSON.serialize(entry));
  }

  #replay(log: Buffer): void {
    for (let at = 0; at + 4 <= log.length && at + log.readInt32LE(at) <= log.length; at += log.readInt32LE(at)) {
      const { writes, dropped } = BSON.deserialize(log.subarray(at, at + log.readInt32LE(at))) as {
        writes?: { ns: string; id: string; doc: Doc | null }[];
        dropped?: string[];
      };
      if (writes) this.#apply(writes.map(({ ns, id, doc }) => [ns, id, doc ?? undefined]));
      for (const ns of dropped ?? []) this.#collections.delete(ns);
    }
  }
}

function seen(version: Version | undefined, transaction: Transaction | undefined): Doc | undefined {
  if (transaction === undefined) return version?.doc;
  let one = version;
  while (one !== undefined && one.at > transaction.snapshot) one = one.before;
  return one?.doc;
}
