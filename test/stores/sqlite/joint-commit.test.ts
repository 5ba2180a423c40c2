import { join } from "node:path";
import { open } from "onceflow";
import { expect, onTestFinished, test } from "vitest";
import { beginOf } from "../../../src/testing/contract/ledger/operations.js";
import { startOf } from "../../../src/testing/contract/runs/run-operations.js";
import { Program } from "../../kit/program.js";
import { temporaryFolder } from "../../kit/temporary-folder.js";
import { handOn } from "../three-commits.js";
import type { JointCommit } from "./programs/joint-commit.js";

const options = { stallMsMax: 0, purgeEveryMs: 0 };

test.each([
  { point: "before", written: false },
  { point: "after", written: true },
] as const)(
  "killed $point the COMMIT of a record, a run and a packet: all three are written, or none of them",
  async ({ point, written }) => {
    const url = `sqlite:${join(temporaryFolder(onTestFinished), "store.db")}`;
    const first = await open(url, options);
    const hand = await handOn(first);
    const packet = hand.packet();
    await first.close();
    const begin = beginOf({ key: "joint" });
    const start = startOf({ id: "joint" });
    const send = hand.sendOf([packet]);

    const doom: JointCommit = { url, point, begin, start, send };
    const { signal } = await new Program("stores/sqlite/programs/joint-commit", [JSON.stringify(doom)], { onEnd: onTestFinished }).ended;
    expect(signal).toBe("SIGKILL");

    const store = await open(url, options);
    onTestFinished(() => store.close());
    const found = async () => [
      (await store.read({ scope: begin.scope, key: begin.key }))?.record.attempt,
      (await store.runs.read("joint"))?.id,
      (await store.packets.packet(packet.no))?.no,
    ];
    const all = [1, "joint", packet.no];
    expect(await found()).toEqual(written ? all : [undefined, undefined, undefined]);
    // The caller whose reply was lost sends the same operations again: they are recognised as done.
    const answers = await Promise.all([store.commit({ ledger: begin }), store.commit({ run: start }), store.commit({ packet: send })]);
    expect(answers.map(({ kind }) => kind)).toEqual(["started", "created", "packetsSent"]);
    expect(await found()).toEqual(all);
  },
);
