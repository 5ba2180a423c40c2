import { nats } from "./brokers/nats.js";
import { brokerSuite } from "./brokers/suite.js";

brokerSuite(nats);
