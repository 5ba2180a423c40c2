import { expect, test } from "vitest";
import type { Mail } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { MailFetch } from "./mail-fetch.js";
import { Starts } from "./starts.js";

/** A run that is being started, and a store that has mail for the run with its id. */
function starting() {
  const starts = new Starts();
  const reads: string[] = [];
  const received: Mail[] = [];
  const mail: Mail = { seq: 1, kind: "wake", about: null, payload: null, at: 0 };
  const read = async (run: string) => {
    reads.push(run);
    return [mail];
  };
  const store = { runs: { mail: read } } as unknown as Store;
  const run = { id: "r", gone: false, mailbox: { heard: 0, receive: (given: readonly Mail[]) => void received.push(...given) } };
  const fetch = new MailFetch({ store, live: new Map([["r", run]]), starts, claimDue: () => {} });
  const started = starts.begin("r");
  return { starts, started, reads, received, mail, run, fetch };
}

test("the mail of a run is read once its start is saved: until then it may be that of another run with its id", async () => {
  const { starts, started, reads, received, mail, run, fetch } = starting();
  const fetching = [fetch.fetch(run), fetch.fetch(run)];
  expect(reads).toEqual([]);
  starts.settle("r", "created");
  await Promise.all([started, ...fetching]);
  expect(reads).toEqual(["r"]);
  expect(received).toEqual([mail]);
});

test("the mail of a run that is not started here after all is not read", async () => {
  const { starts, started, reads, run, fetch } = starting();
  const fetching = fetch.fetch(run);
  run.gone = true;
  starts.settle("r", { why: "lost" });
  await Promise.all([started, fetching]);
  expect(reads).toEqual([]);
});
