import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { open } from "onceflow";
import type { FlowResult } from "onceflow/flow";
import { type EffectServer, serveEffects } from "onceflow/testing";
import { describe, expect, inject, type TestContext, test } from "vitest";
import { sample } from "../kit/effort.js";
import { Program } from "../kit/program.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { freshDatabase } from "../servers/postgres/databases.js";
import type { FlowDoom } from "./programs/worker.js";

const server = inject("postgres");
const redis = inject("redis");
const dynamodb = inject("dynamodb");

/** Where the process dies, which calls may have been made twice by then, and whether the run was compensating. */
interface Death {
  readonly dieAt: string;
  readonly twice?: string;
  readonly refused?: boolean;
}

const forward: readonly Death[] = [
  { dieAt: "flowStart" },
  { dieAt: "before call a" },
  { dieAt: "after call a", twice: "a" },
  { dieAt: "stepComplete a" },
  { dieAt: "before call b" },
  { dieAt: "after call b", twice: "b" },
  { dieAt: "stepComplete b" },
  { dieAt: "before call c" },
  { dieAt: "after call c", twice: "c" },
  { dieAt: "stepComplete c" },
  { dieAt: "stepStart d" },
  { dieAt: "before call d" },
  { dieAt: "after call d", twice: "d" },
  // This event is emitted when the result is in the store.
  { dieAt: "stepComplete d" },
  { dieAt: "flowComplete" },
];

const back: readonly Death[] = [
  { dieAt: "stepFail d", twice: "d" },
  { dieAt: "compensate c" },
  { dieAt: "before call undo c" },
  { dieAt: "after call undo c", twice: "undo c" },
  { dieAt: "compensateComplete c" },
  { dieAt: "compensate b" },
  { dieAt: "after call undo b", twice: "undo b" },
  { dieAt: "compensateComplete b" },
  { dieAt: "before call undo a" },
  { dieAt: "after call undo a", twice: "undo a" },
  { dieAt: "compensateComplete a" },
  { dieAt: "flowFail" },
].map((death) => ({ ...death, refused: true }));

const places = {
  SQLite: async ({ onTestFinished }: TestContext): Promise<string> => {
    const folder = temporaryFolder(onTestFinished);
    return `sqlite:${join(folder, "ledger.db")}`;
  },
  PostgreSQL: async ({ onTestFinished, skip }: TestContext): Promise<string> => {
    if (!server.ok) return skip(server.reason);
    const database = await freshDatabase(server.url);
    onTestFinished(() => database.drop());
    return database.url;
  },
  Redis: async ({ skip }: TestContext): Promise<string> => (redis.ok ? `${redis.url}?prefix=kill-${randomUUID()}` : skip(redis.reason)),
  DynamoDB: async ({ skip }: TestContext): Promise<string> => {
    if (!dynamodb.ok) return skip(dynamodb.reason);
    const url = new URL(dynamodb.url);
    url.pathname = `/kill-${randomUUID()}`;
    url.searchParams.set("create", "true");
    return url.href;
  },
};

for (const [name, placeOf] of Object.entries(places)) {
  describe.concurrent(`a flow on ${name} whose process is killed`, () => {
    // Every store gets the same writes in the same order: all points on one store, a sample of them on the others.
    const [every, first] = { SQLite: [1, 0], PostgreSQL: [3, 2], Redis: [4, 3], DynamoDB: [6, 4] }[name] as [number, number];
    const deaths = sample(
      [...forward, ...back].filter((_, i) => i % every === first),
      2,
    );
    for (const { dieAt, twice, refused = false } of deaths) {
      test(`at "${dieAt}" continues after its last completed step`, async (context) => {
        const url = await placeOf(context);
        const provider = await serveEffects({ honoursKeys: false });
        context.onTestFinished(() => provider.close());
        const doom = { url, providerUrl: provider.url, refused };

        expect(await live({ ...doom, act: "run", dieAt })).toBe("killed");
        // Each way to continue in turn: with the input, with only the key, and by a search for abandoned runs.
        const over = dieAt === "stepComplete d" || dieAt === "flowComplete" || dieAt === "flowFail" || dieAt === "compensateComplete a";
        const act = (["run", "resume", "recover"] as const)[dieAt.length % (over ? 2 : 3)] ?? "run";
        const result = await live({ ...doom, act });
        if (result === "killed") return expect.unreachable("only the first one dies");

        expect(result.status).toBe(refused ? "failed" : "completed");
        expect(result.steps.map((step) => `${step.name} ${step.status}`)).toEqual(
          ["a", "b", "c", "d"].map((step) => `${step} ${step === "d" && refused ? "failed" : "completed"}`),
        );
        const undone = refused ? ["undo c", "undo b", "undo a"] : [];
        for (const call of ["a", "b", "c", "d", ...undone])
          expect([call, provider.effects.rawCalls(call)]).toEqual([call, call === twice ? 2 : 1]);
        if (refused) expect(result.compensations?.map((each) => each.name)).toEqual(["c", "b", "a"]);
        else expect(calledBack(provider)).toBe(0);
        // From here on every caller gets this result.
        expect(await stored(url)).toBe(result.status);
      });
    }
  });
}

function calledBack({ effects }: EffectServer): number {
  return ["a", "b", "c", "d"].reduce((calls, step) => calls + effects.rawCalls(`undo ${step}`), 0);
}

/** The run's record in the ledger. */
async function stored(url: string): Promise<string | undefined> {
  const store = await open(url);
  const reading = await store.read({ scope: "", key: "k" });
  await store.close();
  return reading?.record.state;
}

/** The result as JSON, or that the process was killed. */
async function live(doom: FlowDoom): Promise<FlowResult | "killed"> {
  const { signal, stdout } = await new Program("flow/programs/worker", [JSON.stringify(doom)], { onEnd: () => {} }).ended;
  return signal === "SIGKILL" ? "killed" : (JSON.parse(stdout) as FlowResult);
}
