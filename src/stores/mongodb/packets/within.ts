import type { ClientSession } from "mongodb";
import { InvalidInputError } from "../../../core/errors/errors.js";
import type { PacketAnswer, SendPackets } from "../../../core/packets/operation.js";
import { sendPackets } from "../../../core/packets/rules/send.js";
import type { Tx } from "../../../core/store/store.js";
import { wishesOf } from "../../shared/packet-wishes.js";
import { SeenPackets } from "../../shared/seen-packets.js";
import type { Collections } from "../layout.js";
import { asSession, clientOf } from "../transactions/transact.js";
import { decideInside } from "./transaction.js";

const turns = new WeakMap<ClientSession, Promise<unknown>>();

/**
 * Sends in the user's transaction, one send at a time: a transaction may not run two commands at once. Errors keep their labels, which
 * the code that opened the transaction needs.
 */
export async function sendWithin(collections: Collections, tx: Tx, send: SendPackets): Promise<PacketAnswer> {
  if (send.packets.some(({ claim }) => claim))
    throw new InvalidInputError(
      "packets",
      "cannot be claimed by a send inside a transaction: they must not be delivered before it commits",
    );
  const session = asSession(tx);
  const inside = () =>
    decideInside(collections.by(clientOf(session)), { wishes: wishesOf(send, SeenPackets.none) }, { session }, (table) =>
      sendPackets(table, send),
    );
  const turn = (turns.get(session) ?? Promise.resolve()).then(inside, inside);
  turns.set(session, turn);
  return await turn;
}
