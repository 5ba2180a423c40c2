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

/** Vitest's global set-up: starts the servers that the suites share, passes their URLs to them with `provide`, and stops the servers after the last suite. */
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
    provided(postgres, ({ url }: Server) => ({ url })),
  );
  project.provide(
    "node24",
    provided(node24, ({ path }: Runtime) => ({ path })),
  );
  project.provide(
    "dynamodb",
    provided(dynamodb, ({ url }: Server) => ({ url })),
  );
  project.provide(
    "mongodb",
    provided(mongodb, ({ url }: Server) => ({ url })),
  );
  project.provide(
    "redis",
    provided(redis, ({ url }: Server) => ({ url })),
  );
  return stopAll;
}

/** On a developer's machine a missing server is a message. In CI it is an error: a green run that skipped suites is worse than a red one. */
function requireOrSkip(title: string, acquired: Acquired<Running>): void {
  if (acquired.ok) return;
  if (process.env.CI === "true" && acquired.promised) throw new Error(`${title} could not be started: ${acquired.reason}`);
  process.stderr.write(`skipped: ${title} suites: ${acquired.reason}\n`);
}

function provided<R extends Running, T extends object>(
  acquired: Acquired<R>,
  factsOf: (running: R) => T,
): ({ readonly ok: true } & T) | Missing {
  return acquired.ok ? { ok: true, ...factsOf(acquired.running) } : { ok: false, reason: acquired.reason };
}
