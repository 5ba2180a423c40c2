import { sqs } from "./brokers/sqs.js";
import { brokerSuite } from "./brokers/suite.js";

brokerSuite(sqs);
