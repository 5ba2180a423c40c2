import { kafka } from "./brokers/kafka.js";
import { brokerSuite } from "./brokers/suite.js";

brokerSuite(kafka);
