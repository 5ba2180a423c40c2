import { type DynamoDBClient, GetItemCommand, PutItemCommand, UpdateItemCommand } from "@aws-sdk/client-dynamodb";
import type { Contender } from "../measure.js";
import { freshKeys, outcome, settledCount, settledKeys, times } from "./ours.js";
import { names } from "./subject.js";

const owner = { S: "floor:1" };

/** The requests of a minimal correct implementation: one conditional write to begin, one to settle. */
export class DynamoFloor {
  readonly #client: DynamoDBClient;
  readonly #table: string;
  readonly #keys = freshKeys("floor");

  constructor(client: DynamoDBClient, table: string) {
    this.#client = client;
    this.#table = table;
  }

  bare(): Contender {
    return { name: names.bare, work: () => this.#execute(this.#keys()) };
  }

  async read(): Promise<Contender> {
    const fill = settledKeys();
    await times(settledCount, 32, () => this.#execute(`floor:${fill()}`));
    const next = settledKeys();
    const get = () => new GetItemCommand({ TableName: this.#table, Key: { id: { S: `floor:${next()}` } }, ConsistentRead: true });
    return { name: names.read, work: () => this.#client.send(get()) };
  }

  async #execute(key: string): Promise<void> {
    const TableName = this.#table;
    await this.#client.send(
      new PutItemCommand({
        TableName,
        Item: { id: { S: key }, state: { S: "running" }, owner },
        ConditionExpression: "attribute_not_exists(id)",
        ReturnValuesOnConditionCheckFailure: "ALL_OLD",
      }),
    );
    await this.#client.send(
      new UpdateItemCommand({
        TableName,
        Key: { id: { S: key } },
        UpdateExpression: "SET #state = :state, outcome = :outcome",
        ConditionExpression: "#owner = :owner",
        ExpressionAttributeNames: { "#state": "state", "#owner": "owner" },
        ExpressionAttributeValues: { ":state": { S: "completed" }, ":outcome": { S: outcome }, ":owner": owner },
        ReturnValuesOnConditionCheckFailure: "ALL_OLD",
      }),
    );
  }
}
