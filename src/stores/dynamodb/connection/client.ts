import type { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { atOnceMax } from "../backend.js";
import type { Sdk } from "../driver.js";
import type { DynamoAddress } from "../url.js";

const connectMsMax = 2000;
const requestMsMax = 3000;

/** The client of a store that is opened by its URL. */
export function ownClient(
  sdk: Sdk,
  { region, endpoint, credentials }: Pick<DynamoAddress, "region" | "endpoint" | "credentials">,
): DynamoDBClient {
  const agent = { keepAlive: true, maxSockets: atOnceMax };
  return new sdk.DynamoDBClient({
    region,
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(credentials === undefined ? {} : { credentials }),
    maxAttempts: 3,
    // Build the middleware once per kind of command, not for every request.
    cacheMiddleware: true,
    requestHandler: {
      connectionTimeout: connectMsMax,
      requestTimeout: requestMsMax,
      throwOnRequestTimeout: true,
      httpAgent: agent,
      httpsAgent: agent,
    },
  });
}
