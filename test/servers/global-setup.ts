import type {} from "vitest";
import type { TestProject } from "vitest/node";
import { acquire } from "./acquire.js";
import type { Acquired } from "./acquire-from.js";
import type { Running, Runtime, Server } from "./provider.js";
import { providers } from "./registry.js";

type Missing = { readonly ok: false; readonly reason: string };

declare module "vitest" {
  interface ProvidedContext {
    postgres: { readonly ok: true; readonly url: string } | Missing;
    dynamodb: { readonly ok: true; readonly url: string } | Missing;
    mongodb: { readonly ok: true; readonly url: string } | Missing;
    redis: { readonly ok: true; readonly url: string } | Missing;
    node24: { readonly ok: true; readonly path: string } | Missing;
  }
}

/** Vitest's global set-up: what the suites share is started once, told to them by `provide`, and stopped after the last one. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [postgres, node24, dynamodb, mongodb, redis] = await Promise.all([
    acquire("postgres"),
    acquire("node24"),
    acquire("dynamodb"),
    acquire("mongodb"),
    acquire("redis"),
  ]);
  const stopAll = async () => {
    await Promise.all(
      [postgres, node24, dynamodb, mongodb, redis].map((acquired: Acquired<Running>) => acquired.ok && acquired.running.stop()),
    );
  };
  try {
    requireOrSkip(providers.postgres.title, postgres);
    requireOrSkip(providers.node24.title, node24);
    requireOrSkip(providers.dynamodb.title, dynamodb);
    requireOrSkip(providers.mongodb.title, mongodb);
    requireOrSkip(providers.redis.title, redis);
  } catch (error) {
    await stopAll();
    throw error;
  }
  project.provide(
    "postgres",
    told(postgres, ({ url }: Server) => ({ url })),
  );
  project.provide(
    "node24",
    told(node24, ({ path }: Runtime) => ({ path })),
  );
  project.provide(
    "dynamodb",
    told(dynamodb, ({ url }: Server) => ({ url })),
  );
  project.provide(
    "mongodb",
    told(mongodb, ({ url }: Server) => ({ url })),
  );
  project.provide(
    "redis",
    told(redis, ({ url }: Server) => ({ url })),
  );
  return stopAll;
}

/** On a developer's machine a missing server is a line; in CI, a green run that tested less than it says is worse than a red one. */
function requireOrSkip(title: string, acquired: Acquired<Running>): void {
  if (acquired.ok) return;
  if (process.env.CI === "true" && acquired.promised) throw new Error(`${title} could not be had: ${acquired.reason}`);
  process.stderr.write(`skipped: ${title} suites: ${acquired.reason}\n`);
}

function told<R extends Running, T extends object>(acquired: Acquired<R>, tell: (running: R) => T): ({ readonly ok: true } & T) | Missing {
  return acquired.ok ? { ok: true, ...tell(acquired.running) } : { ok: false, reason: acquired.reason };
}
