import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { EffectLedger } from "./effect-ledger.js";

/** A running effect server, as `serveEffects` returns it. */
export interface EffectServer {
  /** POST here with the headers `idempotency-key`, `x-attempt` and `x-caller`. */
  readonly url: string;
  /** The calls and effects that the server has counted. */
  readonly effects: EffectLedger;
  /** Pairs of calls with one key that ran at the same time: the first was not answered yet, and its caller was still connected. */
  readonly overlaps: readonly Overlap[];
  /** Stops the server and closes its connections. */
  close(): Promise<void>;
}

/** Two calls with one key that ran at the same time. */
export interface Overlap {
  readonly key: string;
  /** The header `x-caller` of the earlier call and of the later one. */
  readonly callers: readonly [string, string];
}

/** Options of `serveEffects`. */
export interface EffectServerOptions {
  /** Whether the server deduplicates by key: see `EffectLedger`. */
  readonly honoursKeys: boolean;
  /** Delay in ms, once before a call is counted and once before it is answered: a test can kill the caller in both. Default 0. */
  readonly latencyMs?: () => number;
}

/**
 * Starts an HTTP server on loopback that counts calls and applied effects per key. For tests that kill the calling process:
 * the counts survive in the process of the test.
 *
 * @example
 * const provider = await serveEffects({ honoursKeys: false });
 * await fetch(provider.url, { method: "POST", headers: { "idempotency-key": "charge:1", "x-attempt": "1" } });
 * provider.effects.applied("charge:1"); // → 1
 * await provider.close();
 */
export async function serveEffects({ honoursKeys, latencyMs = () => 0 }: EffectServerOptions): Promise<EffectServer> {
  const effects = new EffectLedger({ honoursKeys });
  const overlaps: Overlap[] = [];
  const underWay = new Map<string, Set<string>>();
  const server = createServer((request, response) => {
    const key = String(request.headers["idempotency-key"] ?? "");
    const caller = String(request.headers["x-caller"] ?? "");
    const callers = underWay.get(key) ?? new Set();
    underWay.set(key, callers);
    for (const other of callers) overlaps.push({ key, callers: [other, caller] });
    callers.add(caller);
    // The response closes when it is answered and when the caller's connection is lost: a call ends with its caller.
    response.once("close", () => {
      callers.delete(caller);
      if (callers.size === 0) underWay.delete(key);
    });
    const attempt = Number(request.headers["x-attempt"] ?? Number.NaN);
    request.resume().on("end", () => {
      setTimeout(() => {
        const result = effects.call(key, {
          ...(Number.isNaN(attempt) ? {} : { attempt }),
          result: { id: `effect-${key}-${effects.rawCalls(key) + 1}` },
        });
        setTimeout(() => response.setHeader("content-type", "application/json").end(JSON.stringify(result)), latencyMs());
      }, latencyMs());
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    effects,
    overlaps,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}
