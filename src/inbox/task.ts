import { InvalidInputError } from "../core/errors/errors.js";
import { key as keys } from "../core/ledger/key.js";
import type { OnceOptions } from "../core/ledger/options.js";
import type { Handler } from "../core/ledger/run-attempt.js";
import type { TxRunner } from "../core/store/store.js";
import { encode, renamed } from "../core/values/codec.js";
import { contentOf, type Identity, identityOf } from "./identity.js";
import { contextOf, type Message, type MessageHandler, plainMessage } from "./message.js";
import type { Policy } from "./options.js";

/** A message, the record that it is kept under, and what is to be run for it. */
export interface Task {
  readonly message: Message;
  readonly id: Identity;
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
    const { options, run } = policy.operation === undefined ? ownOf(policy, given, message, fn) : sharedOf(policy, message);
    return { message, id: identityOf(options), options, run };
  } catch (unkeyed) {
    mustBeKept(message);
    return { message, unkeyed };
  }
}

/** What runs for a message whatever its key is, and in which transaction. */
export function bodyOf(policy: Policy, message: Message, fn: AnyMessageHandler | undefined): Body {
  checkHandler(policy, fn);
  if (policy.operation === undefined) return { run: runOf(message, fn), tx: policy.tx };
  const { options, run } = sharedOf(policy, message);
  return { run, tx: options.tx };
}

interface Body {
  readonly run: Handler<unknown>;
  readonly tx: true | TxRunner | undefined;
}

type OwnPolicy = Extract<Policy, { readonly operation: undefined }>;
type SharedPolicy = Exclude<Policy, OwnPolicy>;

function ownOf(policy: OwnPolicy, given: Message, message: Message, fn: AnyMessageHandler | undefined): Pick<Task, "options" | "run"> {
  const { leaseMs, retentionMs, horizonMs, effect, tx } = policy;
  const key = keys.of(policy.key(message));
  const fingerprint = policy.fingerprint === false ? undefined : contentOf(policy.fingerprint(message));
  const options = {
    ...{ key, scope: policy.scopeOf(""), leaseMs, retentionMs, horizonMs, effect },
    ...(fingerprint === undefined ? {} : { fingerprint }),
    ...(tx === undefined ? {} : { tx }),
  };
  return { options, run: runOf(given, fn) };
}

function sharedOf({ operation, input, given }: SharedPolicy, message: Message): Pick<Task, "options" | "run"> {
  const { options, handler } = operation.ask(input(message));
  return { options: { ...(options as unknown as OnceOptions), ...given }, run: handler };
}

function runOf(message: Message, fn: AnyMessageHandler | undefined): Handler<unknown> {
  return (attempt) => fn?.(message as Message<never>, contextOf(attempt));
}

function checkHandler({ operation }: Policy, fn: AnyMessageHandler | undefined): void {
  if (operation === undefined && typeof fn !== "function") throw new InvalidInputError("fn", "must be a function of the message");
  if (operation !== undefined && fn !== undefined)
    throw new InvalidInputError("fn", "must be left out: this inbox has an operation, which is what runs");
}

/** A dead letter is acknowledged to the broker: one without its message would be the end of it. */
function mustBeKept(message: Message): void {
  try {
    encode(message);
  } catch (error) {
    throw renamed("message", error);
  }
}
