import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** The other side of node `effect`: counts calls and applied effects by key, and can hold its answers. */
export interface Provider {
  readonly url: string;
  /** Calls with this key. */
  calls(key: string): number;
  /** Effects with this key: a provider that honours keys applies one. */
  applied(key: string): number;
  /** Calls whose caller is still connected and not answered. */
  readonly pending: number;
  /** Largest number of calls with one key that were in progress at the same time. */
  readonly overlapMax: number;
  /** From now on answers wait for `release`. */
  hold(): void;
  release(): void;
  /** The next calls are answered with this status and have no effect. */
  answerNext(...statuses: readonly number[]): void;
  close(): Promise<void>;
}

export async function startProvider(): Promise<Provider> {
  const calls = new Map<string, number>();
  const applied = new Map<string, number>();
  const inProgress = new Map<string, number>();
  const statuses: number[] = [];
  const held = new Set<() => void>();
  let [holding, pending, overlapMax] = [false, 0, 0];
  const add = (counts: Map<string, number>, key: string, by = 1) => counts.set(key, (counts.get(key) ?? 0) + by);
  const answer = (response: ServerResponse, key: string) => {
    const status = statuses.shift() ?? 200;
    const isApplied = status === 200 && !applied.has(key);
    if (isApplied || (status === 200 && key === "")) add(applied, key);
    const send = () => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ id: `effect-${key}` }));
    if (holding) held.add(send);
    else send();
  };
  const server = createServer((request, response) => {
    const key = String(request.headers["idempotency-key"] ?? "");
    add(calls, key);
    add(inProgress, key);
    pending += 1;
    overlapMax = Math.max(overlapMax, key === "" ? 0 : (inProgress.get(key) ?? 0));
    response.once("close", () => {
      add(inProgress, key, -1);
      pending -= 1;
    });
    response.on("error", () => {});
    request.on("error", () => {});
    request.resume().once("end", () => answer(response, key));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    calls: (key) => calls.get(key) ?? 0,
    applied: (key) => applied.get(key) ?? 0,
    get pending() {
      return pending;
    },
    get overlapMax() {
      return overlapMax;
    },
    hold() {
      holding = true;
    },
    release() {
      holding = false;
      for (const send of held) send();
      held.clear();
    },
    answerNext: (...given) => void statuses.push(...given),
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}
