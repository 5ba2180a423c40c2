import { afterAll, beforeAll, describe, inject, test } from "vitest";
import { effort } from "../kit/effort.js";
import { fc } from "../kit/properties.js";
import { freshMongoDatabase } from "../servers/mongodb/databases.js";
import type { FreshDatabase } from "../servers/postgres/databases.js";
import { MongoClock } from "../stores/mongodb/clock.js";
import { comparing } from "./compared.js";
import { history } from "./histories.js";

const server = inject("mongodb");

describe.skipIf(!server.ok)("MongoDB (emulator) handles packets as the memory store does", { timeout: 240_000 }, () => {
  let database: FreshDatabase;
  let opened: Awaited<ReturnType<typeof MongoClock.open>>;

  beforeAll(async () => {
    database = await freshMongoDatabase(server.ok ? server.url : "");
    opened = await MongoClock.open(database.url);
  });
  afterAll(async () => {
    await opened?.backend.close();
    await opened?.clock.close();
    await database.drop();
  });

  test("on random histories", async ({ skip }) => {
    if (opened === undefined) return skip("only the emulator has a clock that a test can set");
    const { backend, clock } = opened;
    const play = comparing({ backend, clock, clear: () => clock.clear() });
    // A failure names its seed: shrinking takes longer than reading it.
    await fc.assert(fc.asyncProperty(history, play), { numRuns: effort({ quick: 6, full: 24 }), endOnFailure: true });
  });
});
