import type { RunningNodeServer } from "./server-program.js";
import type { Wire } from "./wire/wire.js";

/** A server of the suite, and the client that speaks its protocol. */
export interface Served {
  readonly server: RunningNodeServer;
  readonly wire: Wire;
}
