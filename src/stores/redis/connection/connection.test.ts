import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ConfigurationError, NotKnownError, UnreachableError } from "../../../core/errors/errors.js";
import { Connection } from "./connection.js";
import type { RedisLink } from "./link.js";

/** Links that are always ready, and record whether they were closed. */
function links(of: "ours" | "the user's" | "the user's, that cannot be duplicated" = "ours") {
  const made: (RedisLink & { ended: boolean })[] = [];
  const make = () => {
    const link = {
      cluster: false,
      ended: false,
      ready: () => true,
      send: async () => undefined,
      servers: async () => [],
      close: async () => {},
      destroy() {
        link.ended = true;
      },
    };
    made.push(link);
    return link;
  };
  const connect = async () => make();
  const options = of === "ours" ? { connect } : { borrowed: make(), ...(of === "the user's" ? { connect } : {}) };
  return { made, connection: new Connection(options) };
}

const answer = (connection: Connection, link: RedisLink, message: string) =>
  connection.answer(link, "a flush", Promise.reject(new Error(message)));

test.each([
  ["READONLY You can't write against a read only replica.", UnreachableError],
  ["CLUSTERDOWN The cluster is down", UnreachableError],
  ["ERR Script attempted to access a non local key in a cluster node", NotKnownError],
  ["NOAUTH Authentication required.", ConfigurationError],
  ["Socket closed unexpectedly", NotKnownError],
])("after %j a new connection is opened, because another server may be responsible now", async (message, meaning) => {
  const { made, connection } = links();
  const link = await connection.link();
  await expect(answer(connection, link, message)).rejects.toThrow(meaning);
  expect(await connection.link()).not.toBe(link);
  expect(made.map(({ ended }) => ended)).toEqual([true, false]);
});

test.each([
  ["OOM command not allowed when used memory > 'maxmemory'.", UnreachableError],
  ["TRYAGAIN Multiple keys request during rehashing of slot", UnreachableError],
  ["WRONGTYPE Operation against a key holding the wrong kind of value", Error],
])("after %j the connection is kept", async (message, meaning) => {
  const { made, connection } = links();
  const link = await connection.link();
  await expect(answer(connection, link, message)).rejects.toThrow(meaning);
  expect(await connection.link()).toBe(link);
  expect(made).toHaveLength(1);
});

test("a link of the user is never closed", async () => {
  const { made, connection } = links("the user's");
  const link = await connection.link();
  await expect(answer(connection, link, "Socket closed unexpectedly")).rejects.toThrow(NotKnownError);
  expect(await connection.link()).toBe(link);
  await connection.close();
  expect(made.map(({ ended }) => ended)).toEqual([false]);
});

describe("a link of the user that does not answer", () => {
  beforeEach(() => {
    vi.useFakeTimers();
    vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  const fallSilent = async (connection: Connection, link: RedisLink, times: number) => {
    const asked = Array.from({ length: times }, () => connection.answer(link, "a flush", new Promise(() => {})));
    const failed = Promise.all(asked.map((one) => expect(one).rejects.toThrow(NotKnownError)));
    await vi.advanceTimersByTimeAsync(5000);
    await failed;
  };

  test("is replaced once, with a warning, by the store's own link", async () => {
    const { made, connection } = links("the user's");
    const borrowed = await connection.link();
    await fallSilent(connection, borrowed, 3);
    expect(vi.mocked(process.emitWarning)).toHaveBeenCalledTimes(1);
    const own = await connection.link();
    expect(own).not.toBe(borrowed);
    await fallSilent(connection, own, 1);
    expect(await connection.link()).not.toBe(own);
    expect(made.map(({ ended }) => ended)).toEqual([false, true, false]);
  });

  test("stays in use if it cannot be duplicated", async () => {
    const { connection } = links("the user's, that cannot be duplicated");
    const borrowed = await connection.link();
    await fallSilent(connection, borrowed, 1);
    expect(await connection.link()).toBe(borrowed);
    expect(vi.mocked(process.emitWarning)).not.toHaveBeenCalled();
  });
});
