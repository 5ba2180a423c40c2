import { expect, test } from "vitest";
import { ConfigurationError, NotKnownError, UnreachableError } from "../../core/errors.js";
import { Connection } from "./connection.js";
import type { RedisLink } from "./link.js";

/** Links that are always ready, and remember whether they were ended. */
function links(borrowed: boolean) {
  const made: (RedisLink & { ended: boolean })[] = [];
  const connect = async () => {
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
  return { made, connection: new Connection({ connect, borrowed }) };
}

const answer = (connection: Connection, link: RedisLink, message: string) =>
  connection.answer(link, "a flush", Promise.reject(new Error(message)));

test.each([
  ["READONLY You can't write against a read only replica.", UnreachableError],
  ["CLUSTERDOWN The cluster is down", UnreachableError],
  ["ERR Script attempted to access a non local key in a cluster node", NotKnownError],
  ["NOAUTH Authentication required.", ConfigurationError],
  ["Socket closed unexpectedly", NotKnownError],
])("after %j another connection is made: who is to be asked now is somebody else", async (message, meaning) => {
  const { made, connection } = links(false);
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
  const { made, connection } = links(false);
  const link = await connection.link();
  await expect(answer(connection, link, message)).rejects.toThrow(meaning);
  expect(await connection.link()).toBe(link);
  expect(made).toHaveLength(1);
});

test("a link of the user's own is never ended, whatever happens", async () => {
  const { made, connection } = links(true);
  const link = await connection.link();
  await expect(answer(connection, link, "Socket closed unexpectedly")).rejects.toThrow(NotKnownError);
  expect(await connection.link()).toBe(link);
  await connection.close();
  expect(made.map(({ ended }) => ended)).toEqual([false]);
});
