import type { Delivery } from "../journal/event.js";
import type { Answers } from "./answers.js";
import type { Requests } from "./requests.js";

/** A run, as needed by its parts that serve requests of the code: requests go in, deliveries come back. */
export interface ServingRun {
  /** Time of the store. */
  now(): number;
  readonly requests: Requests;
  readonly answers: Pick<Answers, "on">;
  /** Queues a delivery for the code. Null: mail without a delivery for the code. */
  readonly arrivals: { add(delivery: Delivery | null, mail?: number): void };
}
