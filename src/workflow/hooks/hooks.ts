import { randomBytes } from "node:crypto";
import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import type { HookChange } from "../../core/runs/operation.js";
import type { HookRecord } from "../../core/runs/run.js";
import { encode, renamed, withinBytes } from "../../core/values/codec.js";
import { checkStorable } from "../../core/values/storable-text.js";
import { sleep } from "../../core/work/clock.js";
import type { Execution } from "../execute/execution.js";
import { withoutWritable } from "../streams/writable.js";
import { type Hook, RunHook } from "./run-hook.js";

export interface HookOptions {
  /** What the outside resumes it by. Unique while the hook exists. Default: one that nobody can guess. */
  readonly token?: string;
  /** Kept with the hook, for whoever looks it up by its token. */
  readonly metadata?: unknown;
}

export const hookOptionNames: OptionNames<HookOptions> = { token: true, metadata: true };

/** How a webhook differs from a hook: under what its token is stored, and what is stored with it. */
export interface WebhookPart {
  /** Throws for an unknown option. */
  readonly check: () => void;
  readonly storedAs: (token: string) => string;
  readonly urlOf: (token: string) => string;
  readonly metadata: (token: string) => Promise<string>;
}

const tokenCharsMax = 512;
const lookAgainMs = 100;
/** 192 bits: nobody guesses it. */
const tokenBytes = 24;

/** The hooks of a run. */
export class Hooks {
  readonly #execution: Execution;
  readonly #registered: readonly HookRecord[];
  readonly #hooks = new Map<string, RunHook>();

  constructor(execution: Execution, registered: readonly HookRecord[]) {
    this.#execution = execution;
    this.#registered = registered;
  }

  create(options: HookOptions, webhook?: WebhookPart): Hook & { readonly url: string } {
    const { token, metadata } = options;
    if (token !== undefined && (typeof token !== "string" || token === "" || token.length > tokenCharsMax))
      throw new InvalidInputError("token", `must be a string of 1 to ${tokenCharsMax} characters`);
    const execution = this.#execution;
    const kept = metadata === undefined ? null : keptMetadata(metadata, execution.store.valueBytesMax);
    const id = execution.requests.ordinal("hook");
    const asked = execution.requests.ask(id, () => {
      // Here, so that a run that has its hook goes on.
      if (webhook) webhook.check();
      else knownOptions("createHook", options, hookOptionNames);
      // Not of one that is journaled: a store of an earlier version may have taken it.
      if (token !== undefined) checkStorable("token", token);
      const made = token ?? randomBytes(tokenBytes).toString("base64url");
      return { type: "hook", id, at: execution.now(), token: made, url: webhook?.urlOf(made) };
    });
    const { token: named, url = "" } = asked?.event.type === "hook" ? asked.event : { token: "" };
    const storedAs = webhook ? webhook.storedAs(named) : named;
    const hook = new RunHook(execution, id, { token: named, storedAs, url, known: asked?.known ?? false });
    const twin = [...this.#hooks.values()].some((other) => other.open && other.storedAs === hook.storedAs);
    this.#hooks.set(id, hook);
    execution.deliveries.on(id, (event) => hook.tell(event));
    if (asked === undefined || asked.known) return hook;
    if (twin) hook.made(true, execution.id);
    else if (webhook === undefined) execution.draft.changeHook({ add: hook.storedAs, about: id, metadata: kept });
    else {
      // Disposed of while it was read: it never was.
      const add = (read: string) => hook.open && execution.draft.changeHook({ add: hook.storedAs, about: id, metadata: read });
      execution.readFirst(webhook.metadata(named).then((read) => void add(read)));
    }
    return hook;
  }

  /** Whether its token was free is not known of one of them, and no mail would tell. */
  get pending(): boolean {
    for (const hook of this.#hooks.values()) if (hook.pending && hook.open) return true;
    return false;
  }

  /** Whether mail for a hook could make this run go on. */
  get listening(): boolean {
    for (const hook of this.#hooks.values()) if (hook.open) return true;
    return false;
  }

  receive(id: string, payload: string, mail: number): void {
    const open = this.#hooks.get(id)?.open ?? false;
    this.#execution.deliveries.add(open ? { type: "got", id, at: this.#execution.now(), payload } : null, mail);
  }

  /** The commit that made them has been answered. */
  made(changes: readonly HookChange[], conflicts: readonly string[]): void {
    for (const change of changes) if ("add" in change) this.#settle(this.#hooks.get(change.about), conflicts.includes(change.add));
  }

  /** After a replay: the last owner may have died before it could journal a conflict. */
  resume(): void {
    const mine = new Set(this.#registered.map(({ about }) => about));
    for (const [id, hook] of this.#hooks) if (hook.pending && hook.known && hook.open) this.#settle(hook, !mine.has(id));
  }

  #settle(hook: RunHook | undefined, conflict: boolean): void {
    if (conflict) void this.#findHolder(hook);
    else hook?.made(false);
  }

  /** The run that has the token is part of what the code is told. Undefined when it has dropped the hook meanwhile. */
  async #findHolder(hook: RunHook | undefined): Promise<void> {
    const { store } = this.#execution;
    while (hook && !this.#execution.gone) {
      try {
        const holder = await store.runs.hook(hook.storedAs);
        if (!this.#execution.gone) hook.made(true, holder?.run);
        return;
      } catch {
        await sleep(store.clock, lookAgainMs);
      }
    }
  }
}

/** Nothing may wait in the code of a workflow: what has to be read first is refused. */
function keptMetadata(metadata: unknown, bytesMax: number): string {
  try {
    return withinBytes("metadata", withoutWritable("metadata", encode(metadata)), bytesMax);
  } catch (error) {
    throw renamed("metadata", error);
  }
}
