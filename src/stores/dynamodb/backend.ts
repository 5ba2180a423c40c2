import { InvalidInputError } from "../../core/errors/errors.js";
import type { Backend } from "../../core/store/store.js";
import { Gate } from "../../core/work/gate.js";
import { bounded } from "./connection/deadline.js";
import type { Sdk, Table } from "./driver.js";
import { explain } from "./errors.js";
import { prepareTable } from "./layout.js";
import { appendAudit, readAudit } from "./ledger/audit.js";
import { flush } from "./ledger/flush.js";
import { ownNames } from "./ledger/item.js";
import { listRecords } from "./ledger/list.js";
import { Observations, observationsOf } from "./ledger/observed.js";
import { purgeRecords } from "./ledger/purge.js";
import { readAttempts, readRecord } from "./ledger/read.js";
import type { DynamoBackendOptions } from "./options.js";

/** Just below the SDK's default of 50 sockets. */
export const atOnceMax = 48;
const partitionKeyDefault = "id";
/** The partition key of Orchestrix tables. Used if the table has it and the user names none. */
const partitionKeyOfSeed = "key";

export async function dynamoBackend(
  sdk: Sdk,
  options: DynamoBackendOptions,
  check = true,
): Promise<Backend & { readonly partitionKey: string }> {
  const { client, table: name, partitionKey = partitionKeyDefault, ttlAttribute = "ttl", create = false } = options;
  for (const [field, given] of Object.entries({ partitionKey, ttlAttribute }))
    if (given === "" || ownNames.includes(given))
      throw new InvalidInputError(field, `is "${given}", which is the name of another attribute of the store`);
  const asked: Table = { sdk, client: bounded(client as unknown as Table["client"]), name, partitionKey, ttlAttribute };
  const reading = <T>(what: string, work: () => Promise<T>): Promise<T> =>
    work().catch((error: unknown) => {
      throw explain(error, what, "read");
    });

  const others = options.partitionKey === undefined ? [partitionKeyOfSeed] : [];
  const checked = check ? await reading("opening the store", () => prepareTable(asked, create, others)) : undefined;
  const table: Table = { ...asked, ...(checked && { partitionKey: checked.partitionKey }) };
  const identity = checked?.identity;
  const { seen, release } = identity === undefined ? { seen: new Observations(), release: () => {} } : observationsOf(identity);
  const ledger = { table, seen, gate: new Gate(atOnceMax) };
  return {
    name: "dynamodb",
    partitionKey: table.partitionKey,
    capabilities: { transactions: false, sharedClock: false, durable: true, runs: false, packets: false },
    removesByItself: true,
    flush: (operations) => flush(ledger, operations),
    // A key that is throttled or slow does not delay the others.
    flushesAtOnce: atOnceMax,
    read: (id) => reading("a read", () => readRecord(ledger, id)),
    attempts: (query) => reading("a read", () => readAttempts(ledger, query)),
    list: (query) => reading("a listing", () => listRecords(ledger, query)),
    purge: (query) => reading("a purge", () => purgeRecords(ledger, query)),
    audit: (entries) => reading("an audit entry", () => appendAudit(ledger, entries)),
    audited: (id, limit) => reading("a read", () => readAudit(ledger, id, limit)),
    close: async () => release(),
  };
}
