import type { AttributeValue, DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { ConfigurationError } from "../../core/errors/errors.js";

export type Sdk = typeof import("@aws-sdk/client-dynamodb");
export type Item = Record<string, AttributeValue>;

/** The table, and how to reach it. */
export interface Table {
  readonly sdk: Sdk;
  readonly client: Pick<DynamoDBClient, "send">;
  readonly name: string;
  readonly partitionKey: string;
  readonly ttlAttribute: string;
}

export async function loadDriver(): Promise<Sdk> {
  try {
    return await import("@aws-sdk/client-dynamodb");
  } catch (error) {
    throw new ConfigurationError(
      '[onceflow] [dynamodb] the package "@aws-sdk/client-dynamodb" is not installed: npm install @aws-sdk/client-dynamodb',
      { code: "MISSING_DRIVER", cause: error },
    );
  }
}
