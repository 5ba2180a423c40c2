/** A `DynamoDBClient` of the AWS SDK, version 3; whichever copy of it. */
export interface DynamoClient {
  send(command: never, options?: never): Promise<unknown>;
}

export interface DynamoBackendOptions {
  /** Yours: `close` leaves it open. */
  readonly client: DynamoClient;
  readonly table: string;
  /** Default: `id`, or `key` where the table has that. */
  readonly partitionKey?: string;
  /** The attribute of the table's time to live. Default `ttl`. */
  readonly ttlAttribute?: string;
  /** Makes the table, and enables its time to live, where they are missing. */
  readonly create?: boolean;
}
