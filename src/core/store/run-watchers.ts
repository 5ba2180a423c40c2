import type { Entry, RunAnswer, RunBackend, RunChange, RunOperation, WhatChanged } from "../runs/operation.js";

export type RunWatcher = (run: RunChange, ended: boolean, what: WhatChanged) => void;

/**
 * Notifies the watchers of this process about changed runs: runs that a commit of this process changed, and, while there
 * is a watcher, runs of which the database reports that another process changed them.
 */
export class RunWatchers {
  readonly #runs: Pick<RunBackend, "watch"> | undefined;
  readonly #watchers = new Set<RunWatcher>();
  #stopWatching: (() => void) | undefined;
  #closed = false;

  constructor(runs: Pick<RunBackend, "watch"> | undefined) {
    this.#runs = runs;
  }

  add(watcher: RunWatcher): () => void {
    this.#watchers.add(watcher);
    if (!this.#closed) this.#stopWatching ??= this.#runs?.watch((run, what = "run") => this.#notify(run, false, what));
    return () => {
      this.#watchers.delete(watcher);
      if (this.#watchers.size === 0) this.#stop();
    };
  }

  note(operation: RunOperation, answer: RunAnswer): void {
    if (this.#watchers.size === 0) return;
    const changed = changedBy(operation, answer);
    for (const run of changed) this.#notify(run, hasEndedBy(operation, run), "run");
    const grown = grownBy(operation, answer);
    if (grown !== undefined && !changed.includes(grown)) this.#notify(grown, false, "chunks");
  }

  close(): void {
    this.#closed = true;
    this.#stop();
  }

  #stop(): void {
    this.#stopWatching?.();
    this.#stopWatching = undefined;
  }

  #notify(run: RunChange, ended: boolean, what: WhatChanged): void {
    for (const watcher of this.#watchers) watcher(run, ended, what);
  }
}

/**
 * The runs that a worker or a waiting caller may have to read now. An append after which the owner keeps the run concerns only its
 * children and the runs to which it sends mail.
 */
function changedBy(operation: RunOperation, answer: RunAnswer): readonly string[] {
  if (answer.kind === "sent") return [answer.run];
  if (answer.kind === "acted") return operation.verb === "act" && !answer.repeated ? [operation.id] : [];
  if (answer.kind === "created" && operation.verb === "start" && operation.first === null) return [operation.id];
  if (operation.verb === "send" || operation.verb === "write") return [];
  const entry = entryOf(operation);
  if (entry === undefined || !(answer.kind === "appended" || answer.kind === "created")) return [];
  const { children, outgoing = none, then } = entry;
  // Most entries change nothing for others.
  if (then.kind === "hold" && children.length === 0 && outgoing.length === 0) return none;
  const others = [...children.map(({ id }) => id), ...outgoing.map(({ to }) => to.run)];
  return then.kind === "hold" ? others : [operation.id, ...others];
}

const none: readonly never[] = [];

function hasEndedBy(operation: RunOperation, run: string): boolean {
  return operation.verb !== "send" && operation.id === run && entryOf(operation)?.then.kind === "end";
}

/** The run of which a stream has grown or changed. */
function grownBy(operation: RunOperation, answer: RunAnswer): string | undefined {
  if (operation.verb === "write") return answer.kind === "written" ? operation.id : undefined;
  const chunks = answer.kind === "appended" || answer.kind === "created" ? entryOf(operation)?.chunks : undefined;
  return chunks === undefined || operation.verb === "send" ? undefined : operation.id;
}

function entryOf(operation: RunOperation): Entry | undefined {
  if (operation.verb === "append") return operation.entry;
  return operation.verb === "start" ? operation.first?.entry : undefined;
}
