import { open } from "onceflow";
import pg from "pg";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { commitThree, handOn } from "../three-commits.js";
import { database, ownPostgres, server } from "./own-postgres.js";

ownPostgres();

interface Sent {
  readonly connection: unknown;
  readonly answered: boolean;
}

/** Records every statement of this process: its connection, and whether an earlier statement had been answered before. */
function statementsSent(): Sent[] {
  const sent: Sent[] = [];
  let answered = false;
  const query = pg.Client.prototype.query as (...args: unknown[]) => Promise<unknown>;
  const watched = vi.spyOn(pg.Client.prototype, "query").mockImplementation(function (this: pg.Client, ...args: unknown[]) {
    sent.push({ connection: this, answered });
    const result = query.apply(this, args);
    void Promise.resolve(result).then(() => {
      answered = true;
    });
    return result as never;
  });
  onTestFinished(() => watched.mockRestore());
  return sent;
}

describe.skipIf(!server.ok)("group commit on PostgreSQL", () => {
  test("a record, a run and a packet that are committed in one turn are three statements, sent at the same time on three connections", async () => {
    const store = await open(database.url, { stallMsMax: 0, purgeEveryMs: 0 });
    onTestFinished(() => store.close());
    const hand = await handOn(store);
    await commitThree(store, hand, "connections are open after this");
    const sent = statementsSent();
    expect(await commitThree(store, hand, "counted")).toEqual(["started", "created", "packetsSent"]);
    expect(sent.map(({ answered }) => answered)).toEqual([false, false, false]);
    expect(new Set(sent.map(({ connection }) => connection)).size).toBe(3);
  });
});
