import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { EffectLedger } from "./effect-ledger.js";

export interface EffectServer {
  /** POST here with the headers `idempotency-key` and `x-attempt`. */
  readonly url: string;
  readonly effects: EffectLedger;
  /** Calls that began while another one with their key was under way: it had neither been answered, nor had its caller died. */
  readonly overlaps: readonly Overlap[];
  close(): Promise<void>;
}

export interface Overlap {
  readonly key: string;
  /** The header `x-caller` of both: who was at it, and who came. */
  readonly callers: readonly [string, string];
}

export interface EffectServerOptions {
  readonly honoursKeys: boolean;
  /** How long a call takes, before and after it is counted: room for a kill on either side of the effect. */
  readonly latencyMs?: () => number;
}

/**
 * The other side as a process boundary: an HTTP server on loopback that counts raw calls and applied effects per key,
 * for tests whose callers are killed.
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
    // When it is answered, or when the caller's connection is gone: a dead caller is not at it any more.
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
