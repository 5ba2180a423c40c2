import { kafka } from "./brokers/kafka.js";
import { nats } from "./brokers/nats.js";
import { rabbitmq } from "./brokers/rabbitmq.js";
import { sqs } from "./brokers/sqs.js";
import { dynamodb, dynamodbOnDisk } from "./dynamodb/dynamodb.js";
import { jongodb, mongodb, mongodbOld, mongodbStandalone } from "./mongodb/mongodb.js";
import { node20, node22, node24 } from "./node.js";
import { pgbouncer } from "./postgres/pgbouncer.js";
import { postgres } from "./postgres/postgres.js";
import { redis } from "./redis/redis.js";

/** All servers and programs that `acquire` can get. A new one is a file like the others, and one line here. */
export const providers = {
  dynamodb,
  dynamodbOnDisk,
  jongodb,
  kafka,
  mongodb,
  mongodbOld,
  mongodbStandalone,
  nats,
  node20,
  node22,
  node24,
  pgbouncer,
  postgres,
  rabbitmq,
  redis,
  sqs,
};
