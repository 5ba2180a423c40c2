import { redisStreams } from "./brokers/redis-streams.js";
import { brokerSuite } from "./brokers/suite.js";

brokerSuite(redisStreams("redis"));
brokerSuite(redisStreams("ioredis"));
