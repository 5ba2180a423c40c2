import { canonicalJson, sha256 } from "../core/canonical.js";
import { encode, renamed } from "../core/codec.js";
import { InvalidInputError } from "../core/errors.js";
import { type Key, key as keys } from "../core/key.js";
import { type OnceOptions, prepare } from "../core/options.js";
import type { RecordId } from "../core/record.js";
import type { Handler } from "../core/run-attempt.js";
import { contextOf, type Message, type MessageHandler, plainMessage } from "./message.js";
import type { Policy } from "./options.js";

/** A message, the record that it is kept under, and what is to be run for it. */
export interface Task {
  readonly message: Message;
  readonly options: OnceOptions;
  readonly run: Handler<unknown>;
}

/** Its key cannot be made: not now, and not at a redelivery. It is a dead letter, under a key of its own. */
export interface Unkeyed {
  readonly message: Message;
  readonly unkeyed: unknown;
}

export type AnyMessageHandler = MessageHandler<never, unknown>;

/** Throws where the caller is wrong, and nobody would be helped by a dead letter. */
export function taskOf(policy: Policy, given: Message, fn: AnyMessageHandler | undefined): Task | Unkeyed {
  const message = plainMessage(given);
  checkHandler(policy, fn);
  try {
    const task = { message, options: optionsOf(policy, message), run: bodyOf(policy, given, fn) };
    prepare(task.options);
    return task;
  } catch (unkeyed) {
    mustBeKept(message);
    return { message, unkeyed };
  }
}

export function checkHandler({ operation }: Policy, fn: AnyMessageHandler | undefined): void {
  if (operation === undefined && typeof fn !== "function") throw new InvalidInputError("fn", "must be a function of the message");
  if (operation !== undefined && fn !== undefined)
    throw new InvalidInputError("fn", "must be left out: this inbox has an operation, which is what runs");
}

/** What runs for a message. */
export function bodyOf(policy: Policy, message: Message, fn: AnyMessageHandler | undefined): Handler<unknown> {
  if (policy.operation !== undefined) return policy.operation.ask(policy.input(message)).handler;
  return (attempt) => fn?.(message as Message<never>, contextOf(attempt));
}

function optionsOf(policy: Policy, message: Message): OnceOptions {
  if (policy.operation !== undefined)
    return { ...(policy.operation.ask(policy.input(message)).options as unknown as OnceOptions), ...policy.given };
  const { leaseMs, retentionMs, horizonMs, effect, tx } = policy;
  const key = keys.of(policy.key(message));
  const fingerprint = policy.fingerprint === false ? undefined : contentOf(policy.fingerprint(message));
  return {
    ...{ key, scope: policy.scopeOf(""), leaseMs, retentionMs, horizonMs, effect },
    ...(fingerprint === undefined ? {} : { fingerprint }),
    ...(tx === undefined ? {} : { tx }),
  };
}

/** A dead letter is acknowledged to the broker: one without its message would be the end of it. */
function mustBeKept(message: Message): void {
  try {
    encode(message);
  } catch (error) {
    throw renamed("message", error);
  }
}

/** Bytes are bytes, JSON is its meaning, and the rest is what the store would keep of it. */
function contentOf(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (value instanceof Uint8Array) return `bytes ${sha256(value)}`;
  try {
    return `json ${sha256(canonicalJson(value, "payload"))}`;
  } catch {
    return `value ${sha256(encode(value))}`;
  }
}

/** Copies of one message have the same; other messages under its key have another fingerprint. */
export function identityOf({ options }: Pick<Task, "options">): RecordId & { readonly fingerprint: string | null } {
  const { scope, key, fingerprint } = prepare(options).begin;
  return { scope, key, fingerprint };
}

/** One text for all copies of a message. */
export function copyOf(task: Task | Unkeyed): string {
  if ("unkeyed" in task) return `unkeyed\0${task.message.id}`;
  const { scope, key, fingerprint } = identityOf(task);
  return `${scope}\0${key}\0${fingerprint ?? ""}`;
}

/** Where a message goes that was sent under the key of another one. */
export function mismatchKey(task: Pick<Task, "options">): Key {
  const { key, fingerprint } = identityOf(task);
  return shortened(`${key}#${(fingerprint ?? "").slice(0, 16)}`);
}

export function unkeyedKey({ id }: Message): Key {
  return shortened(`unkeyed:${id}`);
}

function shortened(text: string): Key {
  try {
    return keys.of(text);
  } catch {
    return keys.of(`sha256:${sha256(text)}`);
  }
}
