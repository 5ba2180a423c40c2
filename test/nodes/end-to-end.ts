import { join } from "node:path";
import { open, type Store } from "onceflow";
import { createRuntime, type Runtime } from "onceflow/graph";
import { cuttingProxy } from "onceflow/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { dyingStore } from "../kit/dying-store.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { until } from "../kit/until.js";
import { captureWarnings } from "../kit/warnings.js";
import type { NodeServerSuite } from "./contract.js";
import { startProvider } from "./provider.js";
import { type NodeProtocol, type NodeServerStart, RunningNodeServer } from "./server-program.js";

/** In → Effect, which a node server has. */
const documentOf = (timeout: string) => ({
  file: "flow.yaml",
  text: `flowdsl: "1.0"
info: { title: Flow, version: "1.0.0" }
nodes:
  In: { operationId: take, kind: source }
  Effect: { operationId: effect, kind: action, runtime: { language: go }, settings: { region: eu } }
edges:
  - from: In
    to: Effect
    delivery:
      mode: durable
      idempotencyKey: "{{payload.id}}-effect"
      timeout: ${timeout}
      retryPolicy: { maxAttempts: 1000, backoff: fixed, initialDelay: PT0.02S, maxDelay: PT0.02S }
`,
});

/** A short lease: a runtime takes over from a dead one after this time. */
const leaseMs = 500;

/**
 * Flows on SQLite whose node is in a process of its own, in any language. Processes are killed and connections cut at bad moments;
 * effects are counted at the provider: one for each key, and no more calls than the protocol says.
 */
export function remoteFlowCases(name: string, suite: NodeServerSuite): void {
  for (const protocol of suite.protocols ?? (["http", "grpc"] as const)) {
    describe(`a flow with a node in ${name} over ${protocol}`, () => {
      const stage = () => openStage(suite, protocol);

      test("a lost answer, a killed server: one effect for each key", async () => {
        const { provider, start, proxyTo, run, trigger, folder } = await stage();
        const dedupe = suite.dedupe(join(folder, "answers"));
        const first = await start({ dedupe });
        const proxy = await proxyTo(first);
        const runtime = await run(proxy.url);
        expect(await trigger(runtime, "plain")).toBe("completed");
        expect([provider.calls("plain-effect"), provider.applied("plain-effect")]).toEqual([1, 1]);

        // The answer is lost after the node ran: the server has kept it.
        provider.hold();
        const lost = trigger(runtime, "lost");
        await until("the node has called the provider", () => provider.pending === 1);
        proxy.cutNext("reply");
        provider.release();
        expect(await lost).toBe("completed");
        expect([provider.calls("lost-effect"), provider.applied("lost-effect")]).toEqual([1, 1]);

        // The server dies after the effect and before it has kept the answer: the unknown window, closed by the provider's key.
        provider.hold();
        const killed = trigger(runtime, "killed");
        await until("the provider has applied the effect", () => provider.pending === 1 && provider.applied("killed-effect") === 1);
        await first.kill();
        provider.release();
        await start({ dedupe, port: first.port });
        expect(await killed).toBe("completed");
        expect([provider.calls("killed-effect"), provider.applied("killed-effect")]).toEqual([2, 1]);
      });

      test("the runtime dies after the answer and before its commit: the next one gets the kept answer", async () => {
        const { provider, start, run, trigger, openStore } = await stage();
        const server = await start({});
        const dying = dyingStore(await openStore(), "before", {
          packet: ({ verb }) => verb === "settlePacket" && provider.calls("died-effect") > 0,
        });
        const doomed = await run(server.url, { store: dying.store });
        await doomed.trigger("flow", undefined, { id: "died", url: provider.url }, { key: "died" });
        await dying.died;
        const next = await run(server.url);
        expect(await trigger(next, "died")).toBe("completed");
        expect([provider.calls("died-effect"), provider.applied("died-effect")]).toEqual([1, 1]);
      });

      test("a server that is down at the start, and a node that is slower than its edge allows", async () => {
        const warnings = captureWarnings("ONCEFLOW_NODE_SERVER");
        const { provider, start, run, trigger } = await stage();
        const gone = await start({});
        await gone.kill();
        const runtime = await run(gone.url, { timeout: "PT0.2S" });
        await until("the runtime has warned", () => warnings.some(({ message }) => /retried until the server answers/.test(message)));
        const waiting = trigger(runtime, "early");
        await until("a delivery has failed", () => runtime.metrics.retried > 0);
        provider.hold();
        await start({ port: gone.port });
        await until("the node has called the provider", () => provider.pending === 1);
        // The first call goes on after its deadline and keeps its key: later deliveries wait for it, and time out.
        const before = runtime.metrics.retried;
        await until("deliveries have timed out", () => runtime.metrics.retried > before + 1);
        provider.release();
        expect(await waiting).toBe("completed");
        expect([provider.calls("early-effect"), provider.applied("early-effect"), provider.overlapMax]).toEqual([1, 1, 1]);
      });
    });
  }
}

/** Provider, servers and runtimes of one test, all ended with it. */
async function openStage(suite: NodeServerSuite, protocol: NodeProtocol) {
  const folder = temporaryFolder(onTestFinished);
  const provider = await startProvider();
  onTestFinished(() => provider.close());
  const openStore = async (): Promise<Store> => {
    const store = await open(`sqlite:${join(folder, "flows.db")}`, { stallMsMax: 0 });
    onTestFinished(() => store.close());
    return store;
  };
  return {
    folder,
    provider,
    openStore,
    start: (options: Omit<NodeServerStart, "protocol">) => RunningNodeServer.start(suite.program, { protocol, ...options }, onTestFinished),
    async proxyTo({ port }: RunningNodeServer) {
      const proxy = await cuttingProxy({ host: "127.0.0.1", port });
      onTestFinished(() => proxy.close());
      return { url: `${protocol}://127.0.0.1:${proxy.port}`, cutNext: proxy.cutNext };
    },
    async run(url: string, { store, timeout = "PT30S" }: { readonly store?: Store; readonly timeout?: string } = {}): Promise<Runtime> {
      const registry = { file: "node-registry.yaml", text: `nodes: { effect: { url: "${url}" } }` };
      const runtime = await createRuntime({
        ...{ store: store ?? (await openStore()), documents: [documentOf(timeout)], registry },
        ...{ leaseMs, pollMs: 50, graceMs: 0 },
      });
      onTestFinished(() => (store === undefined ? runtime.stop({ graceMs: 0 }) : undefined));
      return runtime;
    },
    async trigger(runtime: Runtime, id: string): Promise<string> {
      const { executionId = "" } = await runtime.trigger("flow", undefined, { id, url: provider.url }, { key: id });
      return (await runtime.wait(executionId)).status;
    },
  };
}
