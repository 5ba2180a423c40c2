import { InvalidInputError } from "../core/errors/errors.js";
import { key as keys } from "../core/ledger/key.js";
import type { OnceOptions } from "../core/ledger/options.js";
import type { Handler } from "../core/ledger/run-attempt.js";
import type { TxRunner } from "../core/store/store.js";
import { encode, renamed } from "../core/values/codec.js";
import { contentOf, type Identity, identityOf } from "./identity.js";
import { contextOf, type Message, type MessageHandler, plainMessage } from "./message.js";
import type { Policy } from "./options.js";

/** A message, the id of its record, and the handler to run. */
export interface Task {
  readonly message: Message;
  readonly id: Identity;
  readonly options: OnceOptions;
  readonly run: Handler<unknown>;
}

/** A message whose key cannot be computed, now or at a redelivery. It becomes a dead letter under a key made from its id. */
export interface Unkeyed {
  readonly message: Message;
  readonly unkeyed: unknown;
}

export type AnyMessageHandler = MessageHandler<never, unknown>;

/** Throws for wrong arguments of the caller, which a dead letter would not fix. */
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

/** The handler of a message and its transaction, without its key. */
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
  if (operation !== undefined && fn !== undefined) throw new InvalidInputError("fn", "must be left out: this inbox runs its operation");
}

/** Throws if the message cannot be encoded: a dead letter is acknowledged, and without its message it would be lost. */
function mustBeKept(message: Message): void {
  try {
    encode(message);
  } catch (error) {
    throw renamed("message", error);
  }
}
