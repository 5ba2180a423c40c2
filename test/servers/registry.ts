import { dynamodb, dynamodbOnDisk } from "./dynamodb.js";
import { kafka } from "./kafka.js";
import { jongodb, mongodb, mongodbOld, mongodbStandalone } from "./mongodb.js";
import { nats } from "./nats.js";
import { node22, node24 } from "./node.js";
import { pgbouncer } from "./pgbouncer.js";
import { postgres } from "./postgres.js";
import { rabbitmq } from "./rabbitmq.js";
import { redis } from "./redis.js";
import { sqs } from "./sqs.js";

/** Everything `acquire` can get. A new server is one file like its neighbours and one line here. */
export const providers = {
  dynamodb,
  dynamodbOnDisk,
  jongodb,
  kafka,
  mongodb,
  mongodbOld,
  mongodbStandalone,
  nats,
  node22,
  node24,
  pgbouncer,
  postgres,
  rabbitmq,
  redis,
  sqs,
};
