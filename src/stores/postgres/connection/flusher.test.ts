import { EventEmitter } from "node:events";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { PgModule } from "../driver.js";
import { Flusher } from "./flusher.js";

/** A server that accepts a connection and closes it before it answers the first statement. */
class ClosedAtOnce extends EventEmitter {
  readonly host = "127.0.0.1";
  readonly port = 5432;
  readonly database = "orders";
  connect(): Promise<void> {
    return Promise.resolve();
  }
  async query(): Promise<never> {
    this.emit("error", new Error("Connection terminated unexpectedly"));
    throw new Error("Client has encountered a connection error and is not queryable");
  }
  end(): Promise<void> {
    return Promise.resolve();
  }
}

const unhandled: unknown[] = [];
const note = (reason: unknown) => void unhandled.push(reason);
let others: NodeJS.UnhandledRejectionListener[] = [];

beforeEach(() => {
  others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  process.on("unhandledRejection", note);
});

afterEach(() => {
  process.removeListener("unhandledRejection", note);
  for (const listener of others) process.on("unhandledRejection", listener);
});

it("a connection that breaks while it is opened fails the flush, without an unhandled rejection that would end the process", async () => {
  const flusher = new Flusher({ Client: ClosedAtOnce } as unknown as PgModule, { settings: {}, pooled: false });
  await expect(flusher.run("a flush", async () => "done")).rejects.toMatchObject({ code: "STORE_UNREACHABLE" });
  // Node reports unhandled rejections after the microtasks of a turn.
  await new Promise((turn) => setImmediate(turn));
  expect(unhandled).toEqual([]);
});
