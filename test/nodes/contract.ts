import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { until } from "../kit/until.js";
import { duplicateCases } from "./cases/duplicates.js";
import { malformedCases } from "./cases/malformed.js";
import { nodeCases } from "./cases/nodes.js";
import { startProvider } from "./provider.js";
import type { Served } from "./served.js";
import { type NodeProgram, type NodeProtocol, type NodeServerStart, RunningNodeServer } from "./server-program.js";
import { grpcWire } from "./wire/grpc.js";
import { httpWire } from "./wire/http.js";

/** A node server program, and how it is started. */
export interface NodeServerSuite {
  readonly program: NodeProgram;
  /** The value of --dedupe that keeps answers in this file: `sqlite:PATH` or `file:PATH`. */
  readonly dedupe: (path: string) => string;
  /** Default: both. */
  readonly protocols?: readonly NodeProtocol[];
}

/**
 * The conformance suite of node servers (docs/reference/node-protocol.md): the same cases for every SDK, over HTTP and gRPC.
 *
 * The program takes `--protocol http|grpc --port 0 --dedupe memory|file:PATH|sqlite:PATH [--token T] [--concurrency N]
 * [--tls-cert F --tls-key F [--tls-client-ca F]]`, prints one JSON line `{"url":"http://127.0.0.1:PORT"}` (or `grpc://…`) when it
 * listens, ends on SIGTERM, and has these nodes:
 *
 *   echo         sends the packet of each input port, ports sorted by name, to "out"
 *   many         sends `payload.n` packets `{ "i": 0 … }` to "out"
 *   fail         throws a NodeError with `payload.code` and `payload.message`; code "EXCEPTION": an ordinary exception
 *   context      sends flowId, executionId, nodeId, packetId, idempotencyKey (null: none), attempt, traceHeaders, settings, hasDeadline
 *   effect       POSTs {"key","attempt"} to `payload.url` with the header Idempotency-Key, if there is a key, and sends {"answer": …}.
 *                An answer that is not 2xx is TEMPORARY. It goes on after the deadline
 *   needs_other  sends the packet of port "other" to "out"
 *
 * A lease of about one second on running keys keeps the case with the killed server short.
 */
export function nodeServerContract(name: string, suite: NodeServerSuite): void {
  for (const protocol of suite.protocols ?? (["http", "grpc"] as const)) {
    describe(`node server in ${name} over ${protocol}`, () => {
      const start = async (options: Omit<NodeServerStart, "protocol">, onEnd: (end: () => void) => void): Promise<Served> => {
        const server = await RunningNodeServer.start(suite.program, { protocol, ...options }, onEnd);
        const wire = protocol === "http" ? httpWire(server.url) : grpcWire(server.url);
        onEnd(() => wire.close());
        return { server, wire };
      };
      // Not destructured before beforeAll has run.
      const shared: { served?: Served } = {};
      // A hook that is registered while another hook runs is never called.
      const ends: (() => void)[] = [];
      beforeAll(async () => {
        shared.served = await start({}, (end) => void ends.push(end));
      });
      afterAll(() => {
        for (const end of ends) end();
      });
      const served = () => shared.served as Served;
      nodeCases(protocol, served);
      malformedCases(protocol, served);
      duplicateCases(protocol, served);
      guardCases(protocol, start);
      restartCases(suite, start);
    });
  }
}

type Start = (options: Omit<NodeServerStart, "protocol">, onEnd: (end: () => void) => void) => Promise<Served>;

/** One server: with a token, and with one slot. */
function guardCases(protocol: NodeProtocol, start: Start): void {
  const token = "a-token-of-the-test-suite";

  test("token, concurrency limit, and a stop that lets running nodes end", async () => {
    const { server, wire } = await start({ token, concurrency: 1 }, onTestFinished);
    const provider = await startProvider();
    onTestFinished(() => provider.close());
    for (const wrong of [undefined, "a-token-of-another-suite"]) {
      const refused = await wire.invoke("echo", {}, wrong);
      expect(refused).toMatchObject({ code: "TEMPORARY" });
      if (protocol === "http") expect(refused.status).toBe(401);
      expect(await wire.manifest(wrong)).toBeUndefined();
    }
    expect(await wire.health()).toEqual({ status: "serving", inFlight: 0, concurrency: 1 });
    expect((await wire.manifest(token))?.nodes.length).toBe(6);

    provider.hold();
    const first = wire.invoke("effect", { idempotencyKey: "slow", inputs: { in: { url: provider.url } } }, token);
    await until("the node has called the provider", () => provider.pending === 1);
    expect(await wire.health()).toMatchObject({ inFlight: 1 });
    const busy = await wire.invoke("echo", { idempotencyKey: "other" }, token);
    expect(busy).toMatchObject({ code: "RATE_LIMITED" });
    expect(busy.retryAfterMs).toBeGreaterThan(0);
    if (protocol === "http") expect([busy.status, Number(busy.headers?.get("retry-after")) > 0]).toEqual([429, true]);

    server.askToStop();
    await until("the server says that it stops", async () => (await wire.health()).status === "stopping");
    expect(await wire.invoke("echo", {}, token)).toMatchObject({ code: "TEMPORARY" });
    provider.release();
    expect(await first).toMatchObject({ outputs: [{ port: "out", data: { answer: { id: "effect-slow" } } }], replayed: false });
    expect(await server.ended).toBe(0);
  });
}

function restartCases({ dedupe }: NodeServerSuite, start: Start): void {
  test("after kill -9: a kept answer is replayed; a node without a kept answer is called again", async () => {
    const provider = await startProvider();
    onTestFinished(() => provider.close());
    const file = dedupe(join(temporaryFolder(onTestFinished), "answers"));
    const inputs = { in: { url: provider.url } };
    const before = await start({ dedupe: file }, onTestFinished);
    const answered = await before.wire.invoke("effect", { idempotencyKey: "answered", inputs });
    expect(answered).toMatchObject({ outputs: [{ data: { answer: { id: "effect-answered" } } }], replayed: false });
    provider.hold();
    const lost = before.wire.invoke("effect", { idempotencyKey: "cut", inputs }).catch(() => {});
    await until("the provider has applied the effect", () => provider.applied("cut") === 1 && provider.pending === 1);
    await before.server.kill();
    await lost;
    provider.release();

    const after = await start({ dedupe: file }, onTestFinished);
    expect(await after.wire.invoke("effect", { idempotencyKey: "answered", attempt: 2, inputs })).toMatchObject({
      ...{ outputs: [{ port: "out", data: { answer: { id: "effect-answered" } } }], replayed: true },
    });
    expect(await after.wire.invoke("effect", { idempotencyKey: "cut", attempt: 2, inputs })).toMatchObject({ replayed: false });
    // The unknown window: the node ran twice, and the provider's own key made it one effect.
    expect([provider.calls("answered"), provider.calls("cut"), provider.applied("cut")]).toEqual([1, 2, 1]);
  });
}
