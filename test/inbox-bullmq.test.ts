import { bullmq } from "./brokers/bullmq.js";
import { brokerSuite } from "./brokers/suite.js";

brokerSuite(bullmq);
