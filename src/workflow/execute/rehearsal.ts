import { nextTick } from "node:process";
import type { Store } from "../../core/store/store.js";
import { runOutside } from "../define/context.js";
import type { Divergence } from "../replay/divergence.js";
import { Execution } from "./execution.js";
import type { Host, Rehearsed } from "./host.js";

/** Replays the code of a run on its journal in a separate execution: no step body runs, and nothing is written. */
export function rehearse({ store, now, ...run }: Rehearsed): Promise<Divergence | undefined> {
  return new Promise((resolve) => {
    const end = (divergence?: Divergence): void => {
      resolve(divergence);
      execution.leave({ why: "lost" });
    };
    const host: Host = {
      ...quietHost(store, () => now),
      rehearsal: { diverge: end, match: () => end() },
      touch(touched) {
        if (touched.touched) return;
        touched.touched = true;
        whenPromisesHaveRun(() => {
          touched.touched = false;
          touched.advance();
        });
      },
      commit: () => new Promise(() => {}),
    };
    const execution = new Execution({ ...run, host, heldAt: store.clock.now(), seq: 1, lapsed: false, mail: [], hooks: [] });
    runOutside(() => execution.start());
  });
}

/**
 * Calls `go` before the next turn of the event loop: if the code still waits then, it waits for a timer or I/O, which is not
 * journaled. A real replay waits for a whole turn, so such code may pass it by chance; here it never does.
 */
function whenPromisesHaveRun(go: () => void): void {
  queueMicrotask(() => nextTick(go));
}

/** A host without step bodies, leases and claims. */
export function quietHost(store: Store, now: () => number): Omit<Host, "touch" | "commit"> {
  return {
    store,
    owner: "replay",
    leaseMs: 1000,
    now,
    learn() {},
    random: () => 0,
    bodyOf: () => () => {},
    ask: () => {},
    crowded: () => false,
    claimAwaitedRun: async () => {},
    remove() {},
    renew() {},
    warnOfDivergence() {},
  };
}
