import { setTimeout as delay } from "node:timers/promises";
import type { TableDescription } from "@aws-sdk/client-dynamodb";
import { ConfigurationError, UnreachableError } from "../../core/errors/errors.js";
import { type Backoff, backoffMs } from "../../core/work/backoff.js";
import type { Table } from "./driver.js";
import { missingTable } from "./errors.js";

const activeMsMax = 60_000;
const creatingBackoff: Backoff = { minMs: 20, maxMs: 2000 };

/**
 * Checks that the table exists, or creates it with `create`, and warns about settings that weaken a guarantee. `identity` is unique to this
 * table; undefined if the permission to read it is missing. `others`: further names that the partition key may have.
 */
export async function prepareTable(
  table: Table,
  create: boolean,
  others: readonly string[] = [],
): Promise<{ readonly identity: string | undefined; readonly partitionKey: string }> {
  const found = await describeOrCreate(table, create);
  if (found === "denied") {
    warn(table, "its settings could not be checked: the permission dynamodb:DescribeTable is missing");
    return { identity: undefined, partitionKey: table.partitionKey };
  }
  const partitionKey = others.find((name) => name === found.KeySchema?.[0]?.AttributeName) ?? table.partitionKey;
  checkKey({ ...table, partitionKey }, found);
  checkReplicas(table, found);
  await checkRemoval(table, create);
  return { identity: `${found.TableArn ?? ""} ${found.TableId ?? found.CreationDateTime?.getTime() ?? ""}`, partitionKey };
}

async function describeOrCreate(table: Table, create: boolean): Promise<TableDescription | "denied"> {
  const until = performance.now() + activeMsMax;
  for (let looks = 1; performance.now() < until; looks++) {
    const found = await describe(table);
    if (found === "denied" || (found !== undefined && found.TableStatus !== "CREATING")) return found;
    if (found === undefined) {
      if (!create) throw missingTable();
      // If another process creates the table at the same time, just check again.
      if (!(await createTable(table))) continue;
    }
    await delay(backoffMs(creatingBackoff, looks));
  }
  throw new UnreachableError(`[onceflow] [dynamodb] table ${table.name} was not ready within ${activeMsMax} ms`);
}

async function describe({ sdk, client, name }: Table): Promise<TableDescription | "denied" | undefined> {
  try {
    return (await client.send(new sdk.DescribeTableCommand({ TableName: name }))).Table;
  } catch (error) {
    if (nameOf(error) === "ResourceNotFoundException") return undefined;
    if (nameOf(error) === "AccessDeniedException") return "denied";
    throw error;
  }
}

/** Returns false if the table already exists. */
async function createTable({ sdk, client, name, partitionKey }: Table): Promise<boolean> {
  try {
    await client.send(
      new sdk.CreateTableCommand({
        TableName: name,
        BillingMode: "PAY_PER_REQUEST",
        KeySchema: [{ AttributeName: partitionKey, KeyType: "HASH" }],
        AttributeDefinitions: [{ AttributeName: partitionKey, AttributeType: "S" }],
      }),
    );
    return true;
  } catch (error) {
    if (nameOf(error) === "ResourceInUseException") return false;
    throw error;
  }
}

function checkKey({ name, partitionKey }: Table, { KeySchema = [], AttributeDefinitions = [] }: TableDescription): void {
  const [hash, ...rest] = KeySchema;
  const type = AttributeDefinitions.find(({ AttributeName }) => AttributeName === partitionKey)?.AttributeType;
  if (hash?.AttributeName === partitionKey && rest.length === 0 && type === "S") return;
  throw new ConfigurationError(
    `[onceflow] [dynamodb] table ${name} must have the partition key "${partitionKey}" of type String, and no sort key; it has ${KeySchema.map(({ AttributeName }) => `"${AttributeName}"`).join(" and ")}. Use another table, or set partitionKey`,
    { code: "UNSUITABLE_TABLE" },
  );
}

/** With eventual consistency between regions, a condition can hold in two regions at once: both would begin the same key. */
function checkReplicas(table: Table, { Replicas = [], MultiRegionConsistency }: TableDescription): void {
  if (Replicas.length === 0 || MultiRegionConsistency === "STRONG") return;
  warn(
    table,
    "it is a global table with eventual consistency: two regions can begin the same key. Use the table from one region at a time, or use a table with strong consistency",
  );
}

/** Without time to live answers stay correct, because every condition checks the expiry; but expired records are not removed. */
async function checkRemoval(table: Table, enable: boolean): Promise<void> {
  const on = await removalOf(table);
  if (on === "denied") return warn(table, "its time to live could not be checked: the permission dynamodb:DescribeTimeToLive is missing");
  if (on === table.ttlAttribute) return;
  if (on === undefined && enable && (await enableRemoval(table))) return;
  warn(
    table,
    `time to live is ${on === undefined ? "not enabled" : `enabled on "${on}"`}, but should be enabled on "${table.ttlAttribute}": expired records stay until purge() is called`,
  );
}

/** The attribute of the table's time to live. Undefined: it is not enabled. */
async function removalOf({ sdk, client, name }: Table): Promise<string | "denied" | undefined> {
  try {
    const { TimeToLiveDescription } = await client.send(new sdk.DescribeTimeToLiveCommand({ TableName: name }));
    return /^ENABL/.test(TimeToLiveDescription?.TimeToLiveStatus ?? "") ? TimeToLiveDescription?.AttributeName : undefined;
  } catch (error) {
    if (nameOf(error) === "AccessDeniedException") return "denied";
    throw error;
  }
}

async function enableRemoval(table: Table): Promise<boolean> {
  const { sdk, client, name, ttlAttribute } = table;
  try {
    const TimeToLiveSpecification = { Enabled: true, AttributeName: ttlAttribute };
    await client.send(new sdk.UpdateTimeToLiveCommand({ TableName: name, TimeToLiveSpecification }));
    return true;
  } catch {
    // Another process may have enabled it at the same time.
    return (await removalOf(table)) === ttlAttribute;
  }
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : "";
}

function warn({ name }: Table, message: string): void {
  process.emitWarning(`[onceflow] [dynamodb] table ${name}: ${message}`, { type: "OnceflowWarning", code: "ONCEFLOW_DYNAMODB" });
}
