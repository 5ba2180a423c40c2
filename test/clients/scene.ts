import { join } from "node:path";
import { open, type Store } from "onceflow";
import type { ApiRole } from "onceflow/server";
import { type EffectServer, serveEffects } from "onceflow/testing";
import { onTestFinished } from "vitest";
import { effectKeyOf } from "../../src/core/ledger/key.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { type ClientCall, type ClientLine, type ClientPlan, ClientProcess } from "./client-process.js";
import { HoldingProxy } from "./holding-proxy.js";
import type { Language } from "./languages.js";
import { type ApiServer, serveApi } from "./programs/serve-api.js";

export const token = "the-token-of-the-client";

interface SceneOptions {
  readonly language: Language;
  /** Whether the provider deduplicates by key. Default false. */
  readonly honoursKeys?: boolean;
  readonly roles?: readonly ApiRole[];
  readonly bodyBytesMax?: number;
}

/** A SQLite store behind createApi, a provider that counts effects, and a proxy between them and the clients. */
export interface ClientScene {
  readonly url: string;
  readonly store: Store;
  readonly api: ApiServer;
  readonly provider: EffectServer;
  readonly proxy: HoldingProxy;
  /** Starts a client process. */
  start(calls: readonly ClientCall[], plan?: Partial<ClientPlan>): ClientProcess;
  /** Runs a client process to its end, and returns what it printed. */
  run(calls: readonly ClientCall[], plan?: Partial<ClientPlan>): Promise<readonly ClientLine[]>;
  /** Runs several plans in one client process, one after the other. */
  runPlans(plans: readonly (Partial<ClientPlan> & Pick<ClientPlan, "calls">)[]): Promise<readonly ClientLine[]>;
  /** How often the effect of a key was applied at the provider, and how often the provider was called. */
  effectsOf(call: Pick<ClientCall, "key" | "scope">): { readonly applied: number; readonly calls: number };
}

export async function clientScene({ language, honoursKeys = false, roles, bodyBytesMax }: SceneOptions): Promise<ClientScene> {
  const { program } = language;
  if (!program.ok) throw new Error(program.reason);
  const url = `sqlite:${join(temporaryFolder(onTestFinished), "onceflow.db")}`;
  const store = await open(url, { purgeEveryMs: 0, stallMsMax: 0 });
  onTestFinished(() => store.close());
  const api = await serveApi(store, { token, ...(roles && { roles }), ...(bodyBytesMax && { bodyBytesMax }) });
  onTestFinished(() => api.close());
  const provider = await serveEffects({ honoursKeys });
  onTestFinished(() => provider.close());
  const proxy = new HoldingProxy(api.port, provider);
  await proxy.listen();
  onTestFinished(() => proxy.close());
  const defaults = { url: `${proxy.url}onceflow`, token, provider: proxy.url };
  const startPlans: (plans: Parameters<ClientScene["runPlans"]>[0]) => ClientProcess = (plans) =>
    new ClientProcess(
      program,
      plans.map((plan) => ({ ...defaults, ...plan })),
      onTestFinished,
    );
  return {
    url,
    store,
    api,
    provider,
    proxy,
    start: (calls, plan) => startPlans([{ ...plan, calls }]),
    run: async (calls, plan) => await startPlans([{ ...plan, calls }]).lines,
    runPlans: async (plans) => await startPlans(plans).lines,
    effectsOf: ({ key, scope = "" }) => {
      const effectKey = effectKeyOf(scope, key);
      return { applied: provider.effects.applied(effectKey), calls: provider.effects.rawCalls(effectKey) };
    },
  };
}
