import { OnceflowError } from "../core/errors/errors.js";
import { thrown, withFailure } from "../core/packets/history.js";
import type { PacketOutcome } from "../core/packets/operation.js";
import type { PacketRecord } from "../core/packets/packet.js";
import { type PacketTrial, trialOf } from "../core/packets/worker/trial.js";
import { backoffMs } from "../core/work/backoff.js";
import type { BoundedCall } from "../core/work/bounded-call.js";
import { messageOf, type OutboxMessage } from "./message.js";
import type { Policy, RelayPolicy } from "./options.js";

export interface PublishContext {
  /** Numbered from 1, over all processes; above it when an earlier attempt failed or died. */
  readonly attempt: number;
  /** Aborts when time is up, when the lease is lost, or when the relay stops: stop. */
  readonly signal: AbortSignal;
}

/** Hands a message to the broker. When it resolves, the message is published; when it throws, it is tried again. */
export type Publisher<Payload = unknown> = (message: OutboxMessage<Payload>, context: PublishContext) => Promise<unknown> | unknown;

export interface Publishing {
  readonly policy: Policy;
  readonly relay: RelayPolicy;
  readonly publisher: Publisher;
}

/** One attempt at a message, and what it comes to. */
export async function publish({ policy, relay, publisher }: Publishing, packet: PacketRecord, call: BoundedCall): Promise<PacketOutcome> {
  const { triesMax, store } = policy;
  const began = { at: Date.now(), clock: store.clock.now() };
  const tries = triesOf(packet);
  try {
    // A message that kills its process never fails: without this it would kill one after the other, for ever.
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
 * Attempts that count, this one included: since it was last redriven, without those that were handed back; of those that
 * fell silent only the ones whose relay had nothing else.
 */
export function triesOf(packet: PacketRecord, { died }: Pick<PacketTrial, "died"> = trialOf(packet)): number {
  return packet.attempt - packet.since - packet.crashes + died;
}

async function called(publisher: Publisher, message: OutboxMessage, attempt: number, call: BoundedCall): Promise<void> {
  await publisher(message, {
    attempt,
    // Made when asked for: it costs more than the rest.
    get signal() {
      return call.signal();
    },
  });
}

/** What can't be read here, for want of a key, may be readable elsewhere, or tomorrow. */
function read(packet: PacketRecord): OutboxMessage {
  try {
    return messageOf(packet);
  } catch (cause) {
    const { code, message } = thrown(cause);
    throw new OnceflowError(`the message can't be read: ${message}`, { code, retryable: true, cause });
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
  const message = `${triesMax} attempts were made, and in the last one the process died or fell silent while it published nothing else; the message may be what kills its process`;
  return new OnceflowError(message, { code: "ATTEMPTS_EXHAUSTED" });
}

function tookTooLong(timeoutMs: number): OnceflowError {
  return new OnceflowError(`the publisher took longer than ${timeoutMs} ms`, { code: "PUBLISHER_TIMEOUT", retryable: true });
}

/** The publisher says that trying again is no use. */
function isFinal(error: unknown): boolean {
  return typeof error === "object" && error !== null && "retryable" in error && error.retryable === false;
}

/** A delay that the caller's function returns is bounded like ours; one that is no number counts as the longest. */
function retryDelayMs({ backoffMs: given, backoffMsMax: maxMs }: Policy, attempt: number): number {
  try {
    const delayMs = typeof given === "function" ? given(attempt) : backoffMs({ minMs: given, maxMs }, attempt);
    return delayMs >= 0 ? Math.min(Math.round(delayMs), maxMs) : maxMs;
  } catch {
    // The message must be settled all the same.
    return maxMs;
  }
}
