import { Socket } from "node:net";

/**
 * Counts requests that the process waited for, with any driver: a write on a connection and all further writes before the next
 * read are one round trip.
 */
export function countRoundTrips(): () => number {
  let count = 0;
  const asked = new WeakSet<Socket>();
  const { write, push } = Socket.prototype;
  Socket.prototype.write = function (this: Socket, ...args: unknown[]) {
    if (this.remotePort !== undefined && !asked.has(this)) {
      asked.add(this);
      count += 1;
    }
    return (write as (...args: unknown[]) => boolean).apply(this, args);
  } as typeof write;
  Socket.prototype.push = function (this: Socket, ...args: Parameters<typeof push>) {
    asked.delete(this);
    return push.apply(this, args);
  };
  return () => count;
}
