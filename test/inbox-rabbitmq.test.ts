import { rabbitmq } from "./brokers/rabbitmq.js";
import { brokerSuite } from "./brokers/suite.js";

brokerSuite(rabbitmq);
