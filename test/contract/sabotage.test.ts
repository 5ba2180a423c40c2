import { memoryTarget, runContract } from "onceflow/testing";
import { describe, expect, test } from "vitest";
import { firstBroken } from "./first-broken.js";
import { administration } from "./sabotages/administration.js";
import { journal } from "./sabotages/journal.js";
import { mail } from "./sabotages/mail.js";
import { type Sabotage, turn } from "./sabotages/meddling.js";
import { streams } from "./sabotages/streams.js";
import { workers } from "./sabotages/workers.js";

/** The name of the first case that the memory store passes and the sabotaged store fails. */
const broken = (verb: string, runs: Sabotage) =>
  firstBroken(runContract, verb, memoryTarget({ time: "virtual", runs }), memoryTarget({ time: "virtual" }));

describe("the run contract finds a store that", () => {
  for (const [does, verb, sabotage] of [...journal, ...streams, ...mail, ...workers, ...administration])
    test(does, async () => expect(await broken(verb, sabotage)).toBeTypeOf("string"));
});

describe("the run contract accepts a store that", () => {
  /** Delays each call, so that other calls run in between. */
  const slow: Sabotage = (faithful) => {
    let calls = 0;
    const later = async () => {
      calls += 1;
      for (let turns = calls % 5; turns > 0; turns--) await turn();
    };
    const slowly =
      <A extends readonly unknown[], R>(verb: (...args: A) => Promise<R>) =>
      async (...args: A): Promise<R> => {
        await later();
        const result = await verb(...args);
        await later();
        return result;
      };
    return {
      ...faithful,
      flush: slowly(faithful.flush),
      claim: slowly(faithful.claim),
      load: slowly(faithful.load),
      renew: slowly(faithful.renew),
      workers: slowly(faithful.workers),
      leave: slowly(faithful.leave),
      mail: slowly(faithful.mail),
      read: slowly(faithful.read),
      journal: slowly(faithful.journal),
      list: slowly(faithful.list),
      hook: slowly(faithful.hook),
      chunks: slowly(faithful.chunks),
      tail: slowly(faithful.tail),
      overdueStops: slowly(faithful.overdueStops),
      log: slowly(faithful.log),
      purge: slowly(faithful.purge),
      // Notifications are late, name no run, and come more often than needed.
      watch: (changed) => {
        let stopped = false;
        const stop = faithful.watch(() => {
          // biome-ignore lint/style/noRestrictedGlobals: the notification has to come late, on the real clock of this store
          for (const ms of [1, 5]) setTimeout(() => stopped || changed(null), ms);
        });
        return () => {
          stopped = true;
          stop();
        };
      },
    };
  };

  /** Answers every second operation of a flush with "again", as if another process had been faster. */
  const contended: Sabotage = (faithful) => ({
    ...faithful,
    async flush(operations) {
      const taken = operations.filter((_, i) => operations.length === 1 || i % 2 === 0);
      const answers = await faithful.flush(taken);
      return operations.map((operation) => answers[taken.indexOf(operation)] ?? "again");
    },
  });

  for (const { verb } of runContract) {
    test(`is slow: ${verb}`, async () => expect(await broken(verb, slow)).toBeUndefined());
    // Such a store may take more flushes than one that never has to retry.
    if (verb !== "start" && verb !== "append")
      test(`loses races: ${verb}`, async () => expect(await broken(verb, contended)).toBeUndefined());
  }
});
