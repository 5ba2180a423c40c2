import { dynamodb, dynamodbOnDisk } from "./dynamodb.js";
import { jongodb, mongodb, mongodbOld, mongodbStandalone } from "./mongodb.js";
import { node24 } from "./node24.js";
import { postgres } from "./postgres.js";
import { redis } from "./redis.js";

/** Everything `acquire` can get. A new server is one file like its neighbours and one line here. */
export const providers = {
  dynamodb,
  dynamodbOnDisk,
  jongodb,
  mongodb,
  mongodbOld,
  mongodbStandalone,
  node24,
  postgres,
  redis,
};
