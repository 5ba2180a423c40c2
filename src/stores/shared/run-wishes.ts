import type { Chunk } from "../../core/runs/chunk.js";
import type { Act, Entry, RunOperation, StartRun } from "../../core/runs/operation.js";
import { childKeys } from "../../core/runs/rules/start.js";
import { childKey } from "../../core/runs/rules/then.js";

/** The rows that an operation may read or write, as far as they follow from the operation alone. */
export class RunWishes {
  readonly runs = new Set<string>();
  readonly tokens = new Set<string>();
  readonly entries: { readonly run: string; readonly seq: number }[] = [];
  readonly mail: { readonly run: string; readonly key: string }[] = [];
  readonly chunks: { readonly run: string; readonly chunk: Chunk }[] = [];
  /** A run that ends or is reopened: the mail to its parent is written or withdrawn, and which run that is can be read only from the run's row. */
  ends: string | null = null;
  /** The id of an action, which the operator log may already have. */
  action: string | null = null;

  constructor(operation: RunOperation) {
    if (operation.verb === "send") {
      if ("token" in operation.to) this.tokens.add(operation.to.token);
      else this.#mailTo(operation.to.run, operation.key);
      return;
    }
    const { id } = operation;
    this.runs.add(id);
    if (operation.verb === "act") this.#act(operation);
    else if (operation.verb === "start") this.#start(operation);
    else if (operation.verb === "write") this.#write(id, operation.chunks);
    else {
      this.entries.push({ run: id, seq: operation.seq });
      if (operation.verb === "appendLate") this.action = operation.log?.id ?? null;
      if (operation.verb === "append") {
        this.#entry(id, operation.entry);
        if (operation.entry.then.kind === "end") this.ends = id;
      }
    }
  }

  #act({ id, log, change }: Act): void {
    this.action = log.id;
    switch (change.kind) {
      case "send":
        this.entries.push({ run: id, seq: 0 });
        this.#mailTo(id, change.mail.key);
        if (change.token !== undefined) this.tokens.add(change.token);
        break;
      case "reopen":
        this.entries.push({ run: id, seq: change.seq });
        for (const { add } of change.hooks) this.tokens.add(add);
        for (const key of change.forget ?? []) this.#mailTo(id, key);
        this.#write(id, change.chunks ?? []);
        this.ends = id;
        break;
      case "remove":
        this.entries.push({ run: id, seq: 0 });
        break;
      case "start":
        this.#start(change.start);
    }
  }

  #start({ id, parent, chunks = [], first }: StartRun): void {
    this.runs.add(id);
    this.#write(id, chunks);
    if (first === null) return;
    this.#entry(id, first.entry);
    if (first.entry.then.kind === "end" && parent !== null) this.#mailTo(parent, childKey(id));
  }

  #entry(id: string, { hooks, children, chunks = [], outgoing = [] }: Entry): void {
    for (const { to, key } of outgoing) this.#mailTo(to.run, key);
    for (const change of hooks) this.tokens.add("add" in change ? change.add : change.drop);
    for (const child of children) {
      this.#start(child);
      for (const key of childKeys(child)) this.#mailTo(id, key);
    }
    this.#write(id, chunks);
  }

  #mailTo(run: string, key: string): void {
    this.runs.add(run);
    this.mail.push({ run, key });
  }

  #write(run: string, chunks: readonly Chunk[]): void {
    for (const chunk of chunks) this.chunks.push({ run, chunk });
  }
}
