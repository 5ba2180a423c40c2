import { describe, expect, test } from "vitest";
import { isFull, sample } from "../kit/effort.js";
import { takeTurns } from "../kit/heavy.js";
import type { ClientCall } from "./client-process.js";
import { languages, titleOf } from "./languages.js";
import { clientScene } from "./scene.js";

takeTurns();

const begin = "/onceflow/keys/begin";
const settle = "/onceflow/keys/settle";

/** Where the client is killed: its request has not reached the server, or the server's answer has not reached the client. */
const points = [
  { at: "before the begin", path: begin, point: "request" },
  { at: "before the reply to the begin", path: begin, point: "reply" },
  { at: "in the handler, before the effect", path: "/effects", point: "request" },
  { at: "in the handler, after the effect", path: "/effects", point: "reply" },
  { at: "before the settle", path: settle, point: "request" },
  { at: "after the settle", path: settle, point: "reply" },
] as const;
const effects = ["idempotent", "keyed", "reconcile", "atMostOnce"] as const;

interface Row {
  readonly point: (typeof points)[number];
  readonly effect: (typeof effects)[number];
}

const rows: readonly Row[] = effects.flatMap((effect) => points.map((point) => ({ point, effect })));

/** What a second client gets, and how often the provider was called and applied the effect. */
function expected({ point, effect }: Row) {
  const place = points.indexOf(point);
  const [hasBegun, hasEffect, isSettled] = [place >= 1, place >= 3, place >= 5];
  if (!hasBegun) return { line: { status: "executed", attempt: 1 }, calls: 1, applied: 1 };
  if (isSettled) return { line: { status: "replayed", attempt: 1 }, calls: 1, applied: 1 };
  const effectsBefore = hasEffect ? 1 : 0;
  switch (effect) {
    case "idempotent":
      return { line: { status: "executed", attempt: 2 }, calls: effectsBefore + 1, applied: effectsBefore + 1 };
    case "keyed":
      return { line: { status: "executed", attempt: 2 }, calls: effectsBefore + 1, applied: 1 };
    case "reconcile":
      return { line: { status: hasEffect ? "replayed" : "executed", attempt: 2 }, calls: 1, applied: 1 };
    case "atMostOnce":
      return { line: { error: "UNKNOWN_OUTCOME", attempt: 1 }, calls: effectsBefore, applied: effectsBefore };
  }
}

describe.for(languages)("the client of", (language) => {
  const { program } = language;

  describe.skipIf(!program.ok)(titleOf(language), () => {
    test.for(sample(rows, 5))("killed $point.at; class $effect", async (row) => {
      const scene = await clientScene({ language, honoursKeys: row.effect === "keyed" });
      const call: ClientCall = { key: "charge:order-1", input: { amount: 10 }, effect: row.effect, leaseMs: 300, waitMs: 120_000 };
      const held = scene.proxy.hold(row.point.path, row.point.point);
      const first = scene.start([call]);
      await held.arrived;
      await first.kill();
      const { line, ...counts } = expected(row);
      const [second] = await scene.run([call]);
      expect(second).toMatchObject(line);
      expect(scene.effectsOf(call)).toEqual(counts);
      if (!isFull || line.error !== undefined) return;
      const [third] = await scene.run([call]);
      expect(third).toMatchObject({ status: "replayed", value: second?.value });
      expect(scene.effectsOf(call)).toEqual(counts);
    });
  });
});
