import { randomBytes } from "node:crypto";
import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions } from "../../core/errors/known-options.js";
import type { HookChange } from "../../core/runs/operation.js";
import type { HookRecord } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { encode, renamed, withinBytes } from "../../core/values/codec.js";
import { checkStorable } from "../../core/values/storable-text.js";
import { sleep } from "../../core/work/clock.js";
import { type Hook, type HookOptions, hookOptionNames, type WebhookPart } from "../define/hook.js";
import type { Draft } from "../journal/writer/draft.js";
import { withoutWritable } from "../streams/writable.js";
import { type HookedRun, RunHook } from "./run-hook.js";

const tokenCharsMax = 512;
const retryMs = 100;
/** 192 bits, so that a token cannot be guessed. */
const tokenBytes = 24;

/** The run that has the hooks. */
interface HooksRun extends HookedRun {
  readonly id: string;
  readonly store: Store;
  readonly gone: boolean;
  readonly draft: Pick<Draft, "changeHook" | "waitFor" | "record">;
  readonly ending: { fail(error: unknown): void };
}

/** The hooks of a run. */
export class Hooks {
  readonly #run: HooksRun;
  readonly #registered: readonly HookRecord[];
  readonly #hooks = new Map<string, RunHook>();

  constructor(run: HooksRun, registered: readonly HookRecord[]) {
    this.#run = run;
    this.#registered = registered;
  }

  create(options: HookOptions, webhook?: WebhookPart): Hook & { readonly url: string } {
    const { token, metadata } = options;
    if (token !== undefined && (typeof token !== "string" || token === "" || token.length > tokenCharsMax))
      throw new InvalidInputError("token", `must be a string of 1 to ${tokenCharsMax} characters`);
    const run = this.#run;
    const kept = metadata === undefined ? null : encodeMetadata(metadata, run.store.valueBytesMax);
    const id = run.requests.idOf(run.requests.ordinal("hook"));
    const asked = run.requests.ask(id, () => {
      // Checked only for a new request, so that a run whose hook is journaled continues.
      if (webhook) webhook.check();
      else knownOptions("createHook", options, hookOptionNames);
      // Not checked for a journaled token: an earlier version of the store may have accepted it.
      if (token !== undefined) checkStorable("token", token);
      const made = token ?? randomBytes(tokenBytes).toString("base64url");
      return { type: "hook", id, at: run.now(), token: made, url: webhook?.urlOf(made) };
    });
    const { token: named, url = "" } = asked?.event.type === "hook" ? asked.event : { token: "" };
    const storedAs = webhook ? webhook.storedAs(named) : named;
    const hook = new RunHook(run, id, { token: named, storedAs, url, known: asked?.known ?? false });
    const twin = [...this.#hooks.values()].some((other) => other.open && other.storedAs === hook.storedAs);
    this.#hooks.set(id, hook);
    run.answers.on(id, (event) => hook.answer(event));
    if (asked === undefined || asked.known) return hook;
    if (twin) hook.settle(true, run.id);
    else if (webhook === undefined) this.#register(hook, id, kept);
    else {
      // If the code disposes of the hook while its metadata is being read, the hook is not created at all.
      const add = (read: string) => hook.open && this.#register(hook, id, read);
      const reading = webhook.metadata(named).then((read) => void add(read));
      run.draft.waitFor(reading.catch((error: unknown) => run.ending.fail(error)));
    }
    return hook;
  }

  /** The metadata is journaled, too: the row of the hook is removed when the run ends, and a retry registers the hook again. */
  #register(hook: RunHook, id: string, metadata: string | null): void {
    const { draft } = this.#run;
    if (metadata !== null) draft.record({ type: "metadata", id, at: this.#run.now(), metadata });
    draft.changeHook({ add: hook.storedAs, about: id, metadata });
  }

  /** True while it is unknown for an open hook whether its token was free. No mail will report that, so the run must stay in memory. */
  get pending(): boolean {
    for (const hook of this.#hooks.values()) if (hook.pending && hook.open) return true;
    return false;
  }

  /** Whether mail for a hook could wake this run. */
  get listening(): boolean {
    for (const hook of this.#hooks.values()) if (hook.open) return true;
    return false;
  }

  /** Ids of the hooks whose payload the code waits for. */
  get awaited(): readonly string[] {
    return [...this.#hooks].flatMap(([id, hook]) => (hook.isAwaited ? [id] : []));
  }

  /** The run is being cancelled. */
  stop(): void {
    for (const hook of this.#hooks.values()) hook.stop();
  }

  /** A payload is recorded also if the code has just disposed of the hook: a retry of the run may take that back, and the sender knows that it was accepted. */
  receive(id: string, payload: string, mail: number): void {
    const isTaken = this.#hooks.get(id)?.hasConflict === false;
    this.#run.arrivals.add(isTaken ? { type: "got", id, at: this.#run.now(), payload } : null, mail);
  }

  /** The store has answered the commit that contained these changes. */
  confirm(changes: readonly HookChange[], conflicts: readonly string[]): void {
    for (const change of changes) if ("add" in change) this.#settle(this.#hooks.get(change.about), conflicts.includes(change.add));
  }

  /** After a replay: the previous owner may have died before it journaled a conflict. */
  resume(): void {
    const mine = new Set(this.#registered.map(({ about }) => about));
    for (const [id, hook] of this.#hooks) if (hook.pending && hook.known && hook.open) this.#settle(hook, !mine.has(id));
  }

  #settle(hook: RunHook | undefined, conflict: boolean): void {
    if (conflict) void this.#findHolder(hook);
    else hook?.settle(false);
  }

  /** Finds the run that has the token, which is part of the error. Undefined if that run has dropped its hook meanwhile. */
  async #findHolder(hook: RunHook | undefined): Promise<void> {
    const { store } = this.#run;
    while (hook && !this.#run.gone) {
      try {
        const holder = await store.runs.hook(hook.storedAs);
        if (!this.#run.gone) hook.settle(true, holder?.run);
        return;
      } catch {
        await sleep(store.clock, retryMs);
      }
    }
  }
}

/** Encodes metadata synchronously, because `createHook` cannot wait in workflow code. Values that must be read first, such as streams, are rejected. */
function encodeMetadata(metadata: unknown, bytesMax: number): string {
  try {
    return withinBytes("metadata", withoutWritable("metadata", encode(metadata)), bytesMax);
  } catch (error) {
    throw renamed("metadata", error);
  }
}
