import type { Item, Table } from "../driver.js";
import { namesIn } from "./write.js";

interface Scan {
  readonly filter: string;
  readonly values: Item;
  readonly projection?: string;
}

/** Scans the whole table in pages of at most 1 MB. Items that the filter excludes are also read and billed. */
export async function* scan(table: Table, { filter, values, projection }: Scan): AsyncGenerator<Item[]> {
  let from: Item | undefined;
  do {
    const command = new table.sdk.ScanCommand({
      TableName: table.name,
      ConsistentRead: true,
      FilterExpression: filter,
      ...(projection === undefined ? {} : { ProjectionExpression: projection }),
      ExpressionAttributeNames: namesIn(table, `${filter} ${projection ?? ""}`),
      ...(Object.keys(values).length > 0 ? { ExpressionAttributeValues: values } : {}),
      ...(from === undefined ? {} : { ExclusiveStartKey: from }),
    });
    const { Items = [], LastEvaluatedKey } = await table.client.send(command);
    yield Items;
    from = LastEvaluatedKey;
  } while (from !== undefined);
}
