import { open } from "onceflow";
import { createRuntime } from "onceflow/graph";
import { serveEffects } from "onceflow/testing";
import { expect, inject, type TestContext, test } from "vitest";
import { effort } from "../../kit/effort.js";
import { takeTurns } from "../../kit/heavy.js";
import { poll } from "../../kit/poll.js";
import { bundleOf } from "../../kit/program.js";
import { Supervised } from "../../kit/supervised.js";
import { type CrashDatabase, postgresDatabase, sqliteDatabase } from "../../ledger/crash-database.js";
import { poisonDocument } from "../programs/poison.js";

takeTurns();

const program = bundleOf("graph/programs/poison");
const server = inject("postgres");
const boundMs = 110_000;
const healthy = effort({ quick: 30, full: 100 });

const places = {
  SQLite: ({ onTestFinished }: TestContext): Promise<CrashDatabase> => sqliteDatabase(onTestFinished),
  PostgreSQL: ({ onTestFinished, skip }: TestContext): Promise<CrashDatabase> =>
    server.ok ? postgresDatabase(server.url, onTestFinished) : skip(server.reason),
};

const cases = [
  { place: "SQLite", death: "exit", workers: 1 },
  { place: "PostgreSQL", death: "exception", workers: 3 },
] as const;

test.for(cases)(
  `a packet that kills its worker by $death becomes a dead letter, and the ${healthy} others are delivered by $workers workers on $place`,
  async ({ place, death, workers }, context) => {
    const { url } = await places[place](context);
    const provider = await serveEffects({ honoursKeys: true, latencyMs: () => 20 });
    context.onTestFinished(() => provider.close());
    const { effects } = provider;
    const store = await open(url);
    context.onTestFinished(() => store.close());
    const runtime = await createRuntime({ store, documents: [poisonDocument], work: false, partial: true });
    context.onTestFinished(() => runtime.stop({ graceMs: 0 }));
    const trigger = (id: string, poison: boolean) => runtime.trigger("poisoned", "In", { id, poison });
    for (let i = 0; i < healthy; i += 1) {
      if (i === 10) await trigger("poison", true);
      await trigger(`healthy-${i}`, false);
    }
    const supervised = new Supervised(context, { program, args: [url, provider.url, death], processes: workers });
    let letters = 0;
    const sofar = () => `${supervised.deaths} deaths, ${effects.keys().length} of ${healthy} packets delivered, ${letters} dead letters`;
    const isOver = async () => {
      letters = (await store.packets.deadLetters({ limit: 1000 })).length;
      expect(letters, sofar()).toBeLessThanOrEqual(1);
      const running = await store.packets.executions({ status: "running", limit: 1000 });
      return (letters === 1 && running.length === 0) || undefined;
    };
    await poll(boundMs, isOver, sofar);
    const [letter] = await store.packets.deadLetters({ limit: 10 });
    expect(letter?.key?.key).toBe("poison-work");
    const history = JSON.parse(letter?.history ?? "[]") as { readonly code: string; readonly message: string }[];
    expect(history.map(({ code }) => code)).toEqual(["ALONE", "CRASHED"]);
    expect(history.at(-1)?.message).toContain("died 2 times while it delivered no other packet");
    expect(effects.keys()).toHaveLength(healthy);
    expect(effects.keys().map((key) => effects.applied(key))).toEqual(Array(healthy).fill(1));
    // Two deaths while it is delivered with other packets, then more than `crashMax` while it is delivered alone.
    expect(supervised.deaths).toBeGreaterThanOrEqual(4);
    console.log(`${place}, ${death}, ${workers} workers: ${sofar()}`);
  },
);
