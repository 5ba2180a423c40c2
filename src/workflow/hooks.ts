import { randomBytes } from "node:crypto";
import { encode, renamed, withinBytes } from "../core/codec.js";
import { InvalidInputError } from "../core/errors.js";
import type { HookRecord } from "../core/run.js";
import type { HookChange } from "../core/run-operation.js";
import type { Execution } from "./execution.js";
import { type Hook, RunHook } from "./run-hook.js";

export interface HookOptions {
  /** What the outside resumes it by. Unique while the hook exists. Default: one that nobody can guess. */
  readonly token?: string;
  /** Kept with the hook, for whoever looks it up by its token. */
  readonly metadata?: unknown;
}

/** How a webhook differs from a hook: under what its token is stored, and what is stored with it. */
export interface WebhookPart {
  readonly storedAs: (token: string) => string;
  readonly urlOf: (token: string) => string;
  readonly metadata: (token: string) => Promise<string>;
}

const tokenCharsMax = 512;
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

  create({ token, metadata }: HookOptions, webhook?: WebhookPart): Hook & { readonly url: string } {
    if (token !== undefined && (typeof token !== "string" || token === "" || token.length > tokenCharsMax))
      throw new InvalidInputError("token", `must be a string of 1 to ${tokenCharsMax} characters`);
    const execution = this.#execution;
    const kept = metadata === undefined ? null : keptMetadata(metadata, execution.store.valueBytesMax);
    const id = execution.requests.ordinal("hook");
    const asked = execution.requests.ask(id, () => {
      const made = token ?? randomBytes(tokenBytes).toString("base64url");
      return webhook ? ["hook", id, execution.now(), made, webhook.urlOf(made)] : ["hook", id, execution.now(), made];
    });
    const [, , , named = "", url = ""] = asked?.event[0] === "hook" ? asked.event : [];
    const storedAs = webhook ? webhook.storedAs(named) : named;
    const hook = new RunHook(execution, id, { token: named, storedAs, url, known: asked?.known ?? false });
    const twin = [...this.#hooks.values()].some((other) => other.open && other.storedAs === hook.storedAs);
    this.#hooks.set(id, hook);
    execution.deliveries.on(id, (event) => hook.tell(event));
    if (asked === undefined || asked.known) return hook;
    if (twin) hook.made(true);
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
    this.#execution.deliveries.add(open ? ["got", id, this.#execution.now(), payload] : null, mail);
  }

  /** The commit that made them has been answered. */
  made(changes: readonly HookChange[], conflicts: readonly string[]): void {
    for (const change of changes) if ("add" in change) this.#hooks.get(change.about)?.made(conflicts.includes(change.add));
  }

  /** After a replay: the last owner may have died before it could journal a conflict. */
  resume(): void {
    const mine = new Set(this.#registered.map(({ about }) => about));
    for (const [id, hook] of this.#hooks) if (hook.pending && hook.known && hook.open) hook.made(!mine.has(id));
  }
}

/** Nothing may wait in the code of a workflow: what has to be read first is refused. */
function keptMetadata(metadata: unknown, bytesMax: number): string {
  try {
    return withinBytes("metadata", encode(metadata), bytesMax);
  } catch (error) {
    throw renamed("metadata", error);
  }
}
