import type { Delivery } from "../journal/event.js";
import type { Answers } from "./answers.js";
import type { Requests } from "./requests.js";

/** A run, as a part of it needs it that serves its code: requests go in, deliveries come back. */
export interface ServingRun {
  /** The store's time. */
  now(): number;
  readonly requests: Requests;
  readonly answers: Pick<Answers, "on">;
  /** What the code is to get, when its turn comes. Null: mail that the code gets nothing of. */
  readonly arrivals: { add(delivery: Delivery | null, mail?: number): void };
}
