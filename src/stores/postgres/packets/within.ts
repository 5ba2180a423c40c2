import { ConfigurationError, InvalidInputError, UnreachableError } from "../../../core/errors/errors.js";
import type { PacketAnswer, SendPackets } from "../../../core/packets/operation.js";
import { sendPackets } from "../../../core/packets/rules/send.js";
import type { Tx } from "../../../core/store/store.js";
import type { PgClient } from "../driver.js";
import { asClient } from "../transactions/transact.js";
import type { PacketConnection } from "./ask.js";
import type { Locked } from "./transaction/lock.js";
import { SeenPackets } from "./transaction/seen.js";
import { Missing } from "./transaction/table.js";
import { decideInside } from "./transaction/transaction.js";
import { type Wishes, wishesOf } from "./transaction/wishes.js";
import { Overtaken } from "./transaction/write.js";

const triesMax = 6;
const turns = new WeakMap<PgClient, Promise<unknown>>();

/** A transaction is one conversation: of two sends at once, each would see the lane, or the key of a trigger, without the other. */
export async function sendWithin(tx: Tx, schema: string, send: SendPackets): Promise<PacketAnswer> {
  const client = asClient(tx);
  const inside = () => sendInside(client, schema, send);
  const turn = (turns.get(client) ?? Promise.resolve()).then(inside, inside);
  turns.set(client, turn);
  return await turn;
}

/**
 * The send inside a handler's transaction. The locks of its lanes are held until that one ends: the order in a lane is the
 * order of commits. What turns out to be another's meanwhile is taken back to a savepoint, and tried again.
 */
async function sendInside(client: PgClient, schema: string, send: SendPackets): Promise<PacketAnswer> {
  if (send.packets.some(({ claim }) => claim))
    throw new InvalidInputError("packets", "can't be claimed by a send inside a transaction: nobody may deliver them before it commits");
  // Not prepared: the connection is not ours, and may be another one at every transaction.
  const connection: PacketConnection = { client, schema, prepared: false };
  const wishes = wishesOf(send, SeenPackets.none);
  for (let tries = 1; tries <= triesMax; tries++) {
    await client.query("SAVEPOINT onceflow_send");
    try {
      const answer = await decideInside(connection, { wishes, mode: "wait" }, (table, locked) => {
        refuseOldSight(locked, wishes, send);
        return sendPackets(table, send);
      });
      await client.query("RELEASE SAVEPOINT onceflow_send");
      return answer;
    } catch (error) {
      if (!(error instanceof Missing || error instanceof Overtaken)) throw error;
      await client.query("ROLLBACK TO SAVEPOINT onceflow_send");
      if (error instanceof Missing) wishes.add(error.wishes);
    }
  }
  throw new UnreachableError("[onceflow] [postgres] others were faster at every try to send; nothing was sent");
}

/** Whoever sees the database as it was when the transaction began does not see who is in the lane now. */
function refuseOldSight({ isolation }: Locked, { lanes, executions }: Wishes, { execution }: SendPackets): void {
  if (isolation === "read committed") return;
  if (lanes.size === 0 && [...executions].every((no) => no === execution?.no)) return;
  throw new ConfigurationError(
    `[onceflow] [postgres] packets in a lane, or of an execution that is under way, can be sent inside a READ COMMITTED transaction only; this one is ${isolation.toUpperCase()}`,
    { code: "MISSING_CAPABILITY" },
  );
}
