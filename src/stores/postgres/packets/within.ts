import { ConfigurationError, InvalidInputError, UnreachableError } from "../../../core/errors/errors.js";
import type { PacketAnswer, SendPackets } from "../../../core/packets/operation.js";
import { sendPackets } from "../../../core/packets/rules/send.js";
import type { Tx } from "../../../core/store/store.js";
import { Missing } from "../../shared/loaded-packet-table.js";
import { type Wishes, wishesOf } from "../../shared/packet-wishes.js";
import { SeenPackets } from "../../shared/seen-packets.js";
import type { PgClient } from "../driver.js";
import { asClient } from "../transactions/transact.js";
import type { PacketConnection } from "./ask.js";
import type { Locked } from "./transaction/lock.js";
import { decideInside } from "./transaction/transaction.js";
import { Overtaken } from "./transaction/write.js";

const triesMax = 6;
const turns = new WeakMap<PgClient, Promise<unknown>>();

/**
 * Sends in the user's transaction, one send at a time: of two concurrent sends, each would see the lane, or the trigger's key,
 * without the other.
 */
export async function sendWithin(tx: Tx, schema: string, send: SendPackets): Promise<PacketAnswer> {
  const client = asClient(tx);
  const inside = () => sendInside(client, schema, send);
  const turn = (turns.get(client) ?? Promise.resolve()).then(inside, inside);
  turns.set(client, turn);
  return await turn;
}

/**
 * The send inside a handler's transaction. Locks of lanes are held until the transaction ends, so that the order in a lane is the
 * order of commits. After a lost race the send is rolled back to a savepoint and retried.
 */
async function sendInside(client: PgClient, schema: string, send: SendPackets): Promise<PacketAnswer> {
  if (send.packets.some(({ claim }) => claim))
    throw new InvalidInputError(
      "packets",
      "cannot be claimed by a send inside a transaction: they must not be delivered before it commits",
    );
  // Not prepared: the connection belongs to the caller, and may differ for every transaction.
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
  throw new UnreachableError("[onceflow] [postgres] the send lost a race at every try; nothing was sent");
}

/** Above READ COMMITTED, a transaction sees the database as it was at its beginning, and so not the packets that are in the lane now. */
function refuseOldSight({ isolation }: Locked, { lanes, executions }: Wishes, { execution }: SendPackets): void {
  if (isolation === "read committed") return;
  if (lanes.size === 0 && [...executions].every((no) => no === execution?.no)) return;
  throw new ConfigurationError(
    `[onceflow] [postgres] packets of a lane, or of an existing execution, can be sent only inside a READ COMMITTED transaction; this one is ${isolation.toUpperCase()}`,
    { code: "MISSING_CAPABILITY" },
  );
}
