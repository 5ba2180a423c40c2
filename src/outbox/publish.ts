import { OnceflowError } from "../core/errors/errors.js";
import { thrown, withFailure } from "../core/packets/history.js";
import type { PacketOutcome } from "../core/packets/operation.js";
import type { PacketRecord } from "../core/packets/packet.js";
import { type PacketTrial, trialOf } from "../core/packets/worker/trial.js";
import { backoffMs } from "../core/work/backoff.js";
import type { BoundedCall } from "../core/work/bounded-call.js";
import { messageOf, type OutboxMessage } from "./message.js";
import type { Policy, RelayPolicy } from "./options.js";

/** Second argument of a publisher. */
export interface PublishContext {
  /** Attempt number, from 1, across all processes; higher if earlier attempts failed or their process died. */
  readonly attempt: number;
  /** Aborts at the timeout, when the lease is lost, or when the relay stops: the publisher should stop. */
  readonly signal: AbortSignal;
}

/**
 * Sends a message to the broker. The message counts as published when this resolves; an error is retried, or makes it a dead
 * letter at once if the error has `retryable: false`.
 */
export type Publisher<Payload = unknown> = (message: OutboxMessage<Payload>, context: PublishContext) => Promise<unknown> | unknown;

export interface Publishing {
  readonly policy: Policy;
  readonly relay: RelayPolicy;
  readonly publisher: Publisher;
}

/** Makes one attempt to publish a message and returns its outcome. */
export async function publish({ policy, relay, publisher }: Publishing, packet: PacketRecord, call: BoundedCall): Promise<PacketOutcome> {
  const { triesMax, store } = policy;
  const began = { at: Date.now(), clock: store.clock.now() };
  const tries = triesOf(packet);
  try {
    // A message that crashes its process never throws: without this limit it would crash one process after the other.
    if (tries > triesMax) throw exhausted(triesMax);
    const message = read(packet);
    const { timeoutMs, graceMs } = relay;
    await call.bound(
      store.clock,
      { timeoutMs, graceMs, timeoutError: () => tookTooLong(timeoutMs) },
      called(publisher, message, packet.attempt, call),
    );
    return { kind: "done", keep: false, note: null };
  } catch (error) {
    const about = { attempt: packet.attempt, at: began.at, ms: Math.round(store.clock.now() - began.clock) };
    const history = withFailure(historyText(packet), thrown(error), about);
    return tries >= triesMax || isFinal(error)
      ? { kind: "dead", history }
      : { kind: "retry", delayMs: retryDelayMs(policy, tries), history };
  }
}

/**
 * Number of attempts that count, this one included: since the last `retry`, without released attempts. An attempt whose process
 * died counts only if its relay was publishing nothing else.
 */
export function triesOf(packet: PacketRecord, { died }: Pick<PacketTrial, "died"> = trialOf(packet)): number {
  return packet.attempt - packet.since - packet.crashes + died;
}

async function called(publisher: Publisher, message: OutboxMessage, attempt: number, call: BoundedCall): Promise<void> {
  await publisher(message, {
    attempt,
    // Created lazily: an AbortSignal costs more than the rest of the context.
    get signal() {
      return call.signal();
    },
  });
}

/** A message that this process cannot decrypt is retryable: another process may have the key. */
function read(packet: PacketRecord): OutboxMessage {
  try {
    return messageOf(packet);
  } catch (cause) {
    const { code, message } = thrown(cause);
    throw new OnceflowError(`the message cannot be read: ${message}`, { code, retryable: true, cause });
  }
}

function historyText(packet: PacketRecord): string | null {
  try {
    return packet.history;
  } catch {
    return null;
  }
}

function exhausted(triesMax: number): OnceflowError {
  const message = `the limit of ${triesMax} attempts is reached, and during the last one the process died or stopped responding while it published nothing else; the message may be crashing its process`;
  return new OnceflowError(message, { code: "ATTEMPTS_EXHAUSTED" });
}

function tookTooLong(timeoutMs: number): OnceflowError {
  return new OnceflowError(`the publisher did not finish within ${timeoutMs} ms`, { code: "PUBLISHER_TIMEOUT", retryable: true });
}

/** Whether the publisher's error forbids a retry (`retryable: false`). */
function isFinal(error: unknown): boolean {
  return typeof error === "object" && error !== null && "retryable" in error && error.retryable === false;
}

/** The delay, at most `backoffMsMax`. A function that throws or returns something that is not a positive number gets the maximum. */
function retryDelayMs({ backoffMs: given, backoffMsMax: maxMs }: Policy, attempt: number): number {
  try {
    const delayMs = typeof given === "function" ? given(attempt) : backoffMs({ minMs: given, maxMs }, attempt);
    return delayMs >= 0 ? Math.min(Math.round(delayMs), maxMs) : maxMs;
  } catch {
    // The outcome must be recorded in any case.
    return maxMs;
  }
}
