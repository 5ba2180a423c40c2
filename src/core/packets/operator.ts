import { randomUUID } from "node:crypto";
import { InvalidInputError } from "../errors/errors.js";
import { knownOptions, type OptionNames } from "../errors/known-options.js";
import { checkActionId, checkSame, checkText } from "../runs/log.js";
import type { Store } from "../store/store.js";
import { beforeEffect } from "../work/until-answered.js";
import type { PacketChange } from "./operation.js";

/** Options of an action of an operator on a dead letter or a flow. With them, the action is written to the operator log, in the same commit. */
export interface OperatorOptions {
  /** Who acts. Default "program". */
  readonly actor?: string;
  /** Identifies the action: sent again with the same id, it is not done again, and the answer is the first one. Default: a new random id. */
  readonly actionId?: string;
  /** Why. */
  readonly reason?: string;
  /** Only says what the action would do. Default false. */
  readonly dryRun?: boolean;
}

/** What an action on a dead letter or a flow answers. */
export interface OperatorResult {
  readonly actionId: string;
  /** An earlier call with the same action id has done it. */
  readonly repeated: boolean;
  /** Nothing was done. */
  readonly dryRun: boolean;
}

const optionNames: OptionNames<OperatorOptions> = { actor: true, actionId: true, reason: true, dryRun: true };

const packetActions = ["retryDeadLetter", "discardDeadLetter", "pauseFlow", "resumeFlow", "archiveFlow"] as const;

/** Whether an action in the operator log is about a dead letter or a flow, and not about a run. */
export function isPacketAction(action: string): boolean {
  return (packetActions as readonly string[]).includes(action);
}

/** An action of an operator. */
export interface OperatorAction {
  readonly store: Store;
  /** Name of the action in the operator log. */
  readonly action: (typeof packetActions)[number];
  readonly subject: string;
  readonly options: OperatorOptions;
  /** Decides the change. Undefined: what the action is about does not exist. */
  readonly decide: () => Promise<PacketChange | undefined>;
}

/**
 * Does an action and logs it. False: what it is about does not exist. The log is read before anything is decided, because the dead letter may be gone by now, and
 * again if it is gone: then the same action may have been done in between.
 */
export async function performOnPackets(performed: OperatorAction): Promise<OperatorResult | false> {
  const { store, action, subject, options, decide } = performed;
  checkOperator(performed);
  const { actionId = randomUUID(), actor = "program", reason = null, dryRun = false } = options;
  const result = { actionId, repeated: false, dryRun };
  const earlier = async (): Promise<OperatorResult | undefined> => {
    const [entry] = options.actionId === undefined ? [] : await store.runs.log({ id: actionId, limit: 1 });
    if (entry === undefined) return undefined;
    checkSame(entry, { action, subject });
    return { actionId, repeated: true, dryRun: false };
  };
  const done = await earlier();
  if (done !== undefined) return done;
  const change = await decide();
  if (change === undefined) return (await earlier()) ?? false;
  if (dryRun) return result;
  const log = { id: actionId, actor, action, subject, reason, detail: null };
  const answer = await beforeEffect(store, () => store.packets.act({ log, change }));
  if (answer.kind === "absent") return false;
  checkSame(answer.entry, log);
  return { ...result, repeated: answer.repeated };
}

/** Called before anything is read: a mistake in the options must not be taken for a default. A discarded dead letter cannot be restored, so its discard needs a reason. */
function checkOperator({ action, options }: OperatorAction): void {
  if (typeof options !== "object" || options === null) throw new InvalidInputError(action, "takes options");
  knownOptions(action, options, optionNames);
  const { actor, actionId, reason, dryRun } = options;
  if (actor !== undefined) checkText("actor", actor);
  if (actionId !== undefined) checkActionId(actionId);
  if (reason !== undefined) checkText("reason", reason);
  if (dryRun !== undefined && typeof dryRun !== "boolean") throw new InvalidInputError("dryRun", "must be true or false");
  if (reason === undefined && action === "discardDeadLetter")
    throw new InvalidInputError("reason", "is missing; say why, for the operator log");
}
