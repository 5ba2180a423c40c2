import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { freePort, portRange } from "./free-port.js";

const random = vi.hoisted(() => ({ next: [] as number[] }));
vi.mock("node:crypto", async (original) => {
  const crypto = await original<typeof import("node:crypto")>();
  return { ...crypto, randomInt: (from: number, to: number) => random.next.shift() ?? crypto.randomInt(from, to) };
});

test("freePort does not return a port that is in use", async () => {
  const taken = await freePort();
  const server = createServer().listen(taken, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  random.next = [taken];
  const port = await freePort();
  expect(random.next).toEqual([]);
  expect(port).not.toBe(taken);
});

/** While a server is killed and restarted, an outgoing connection could otherwise get its port. */
const linux = "/proc/sys/net/ipv4/ip_local_port_range";
test.skipIf(!existsSync(linux))("no outgoing connection gets a port of the range", () => {
  const [first] = readFileSync(linux, "utf8").split(/\s+/).map(Number);
  expect(first).toBeGreaterThanOrEqual(portRange.to);
});
