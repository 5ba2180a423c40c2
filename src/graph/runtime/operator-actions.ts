import { ConfigurationError, InvalidInputError } from "../../core/errors/errors.js";
import { historyOf } from "../../core/packets/history.js";
import type { Alert } from "../../core/packets/operation.js";
import { type OperatorOptions, type OperatorResult, performOnPackets } from "../../core/packets/operator.js";
import type { FlowState, PacketRecord } from "../../core/packets/packet.js";
import type { Store } from "../../core/store/store.js";
import { lostCode } from "./memory-edges/memory-mark.js";
import { packetId, packetNo } from "./views/ids.js";

/** What `decide` says about a dead letter. Throws ConfigurationError if it cannot be delivered again. */
interface Retry {
  readonly store: Store;
  /** The alert for the next time that the packet becomes a dead letter. */
  readonly prepare: (letter: PacketRecord) => Alert | undefined;
  readonly retried: (letter: PacketRecord) => void;
}

export async function retryLetter(
  { store, prepare, retried }: Retry,
  id: string,
  options: OperatorOptions | undefined,
): Promise<boolean | OperatorResult> {
  const no = packetNo(id);
  let found: PacketRecord | undefined;
  const look = async () => {
    found = await store.packets.packet(no);
    if (!found?.dead) return undefined;
    checkNotLost(found);
    const alert = prepare(found);
    return { no, ...(alert && { alert }) };
  };
  if (options === undefined) {
    const letter = await look();
    const done = letter !== undefined && (await store.packets.reinject(no, letter.alert));
    if (done) retried(found as PacketRecord);
    return done;
  }
  const decide = async () => {
    const letter = await look();
    return letter && ({ kind: "retry", letters: [letter] } as const);
  };
  const result = await performOnPackets({ store, action: "retryDeadLetter", subject: packetId(no), options, decide });
  if (isDone(result)) retried(found as PacketRecord);
  return result;
}

export async function discardLetter(store: Store, id: string, options: OperatorOptions | undefined): Promise<boolean | OperatorResult> {
  const no = packetNo(id);
  if (options === undefined) return await store.packets.discard(no);
  const decide = async () => ((await store.packets.packet(no))?.dead ? ({ kind: "discard", letters: [{ no }] } as const) : undefined);
  return await performOnPackets({ store, action: "discardDeadLetter", subject: packetId(no), options, decide });
}

const flowActions = { paused: "pauseFlow", active: "resumeFlow", archived: "archiveFlow" } as const;

/** What became of a flow: `isSet` is false after a dry run, and if an earlier call has done it. */
export interface FlowChange {
  readonly isSet: boolean;
  readonly result: OperatorResult | undefined;
}

export async function changeFlow(store: Store, flow: string, state: FlowState, options: OperatorOptions | undefined): Promise<FlowChange> {
  if (options === undefined) {
    await store.packets.setFlowState(flow, state);
    return { isSet: true, result: undefined };
  }
  const decide = async () => ({ kind: "flow", flow, state }) as const;
  const result = await performOnPackets({ store, action: flowActions[state], subject: `flow:${flow}`, options, decide });
  // Unreachable: a flow that has no state yet gets one.
  if (result === false) throw new InvalidInputError("flow", "does not exist");
  return { isSet: isDone(result), result };
}

function isDone(result: OperatorResult | false): boolean {
  return result !== false && !result.repeated && !result.dryRun;
}

/** The payload of a lost packet is gone: a new delivery would call the node with an empty packet. */
function checkNotLost(letter: PacketRecord): void {
  if (historyOf(letter.history).at(-1)?.code !== lostCode) return;
  throw new ConfigurationError(
    `[onceflow] dead letter ${packetId(letter.no)} cannot be retried: its payload was lost with the memory of a process; trigger the flow again, or discard the dead letter`,
    { code: "PAYLOAD_LOST" },
  );
}
