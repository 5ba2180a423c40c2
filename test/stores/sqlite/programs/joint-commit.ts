import { open } from "onceflow";
import type { Begin } from "../../../../src/core/ledger/operation.js";
import type { SendPackets } from "../../../../src/core/packets/operation.js";
import type { StartRun } from "../../../../src/core/runs/operation.js";
import { watchStatements } from "../../../programs/watch-statements.js";

/** Commits these three operations in one turn, and dies at the COMMIT of their transaction. */
export interface JointCommit {
  readonly url: string;
  readonly point: "before" | "after";
  readonly begin: Begin;
  readonly start: StartRun;
  readonly send: SendPackets;
}

/** One savepoint for each kind. A kind may have further ones inside its own. */
const savepointsMin = 3;

const { url, point, begin, start, send } = JSON.parse(process.argv[2] ?? "") as JointCommit;
let savepoints = 0;

function die(): void {
  process.kill(process.pid, "SIGKILL");
  for (;;); // Blocks the process until the signal arrives.
}

await watchStatements(url, {
  before(sql) {
    if (sql === "SAVEPOINT part") savepoints += 1;
    if (sql === "COMMIT" && savepoints >= savepointsMin && point === "before") die();
  },
  after(sql) {
    if (sql === "COMMIT" && savepoints >= savepointsMin && point === "after") die();
  },
});

const store = await open(url, { stallMsMax: 0, purgeEveryMs: 0 });
await Promise.all([store.commit({ ledger: begin }), store.commit({ run: start }), store.commit({ packet: send })]);
process.exitCode = 3; // The process was not killed: the test fails.
await store.close();
