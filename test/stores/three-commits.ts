import type { Store } from "onceflow";
import { beginOf } from "../../src/testing/contract/ledger/operations.js";
import { Hand } from "../../src/testing/contract/packets/packet-operations.js";
import { startOf } from "../../src/testing/contract/runs/run-operations.js";

/** Commits a begin, the start of a run and the send of a packet in one turn. Returns the kinds of their answers. */
export async function commitThree(store: Store, hand: Hand, name: string): Promise<string[]> {
  const send = hand.sendOf([hand.packet()]);
  const answers = await Promise.all([
    store.commit({ ledger: beginOf({ key: name }) }),
    store.commit({ run: startOf({ id: name }) }),
    store.commit({ packet: send }),
  ]);
  return answers.map(({ kind }) => kind);
}

/** A worker whose packets `commitThree` sends. It has sent one packet, so that its queue exists. */
export async function handOn(store: Store): Promise<Hand> {
  const hand = await Hand.on(store as never);
  await hand.send(hand.packet());
  return hand;
}
