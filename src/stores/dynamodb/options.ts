/** A `DynamoDBClient` of the AWS SDK version 3, from any copy of the package. */
export interface DynamoClient {
  send(command: never, options?: never): Promise<unknown>;
}

export interface DynamoBackendOptions {
  /** Your client. `close` of the store does not close it. */
  readonly client: DynamoClient;
  readonly table: string;
  /** Name of the table's partition key. Default `id`, or `key` if the table has that. */
  readonly partitionKey?: string;
  /** The attribute for the table's time to live. Default `ttl`. */
  readonly ttlAttribute?: string;
  /** Creates the table and enables its time to live, if they are missing. Default false. */
  readonly create?: boolean;
}
