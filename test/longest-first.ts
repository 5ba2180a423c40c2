import { basename } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Begun in this order, before all others: a long file that is begun last runs alone while the other processors rest.
 *
 * Those that take turns (heavy.ts) stand apart from each other. Side by side, one would only wait for the other, and keep
 * a worker from the files that could run.
 */
export const longest: readonly string[] = [
  "crash-table",
  "contract-postgres",
  "contract-mongodb",
  "kill",
  "contract-differential",
  "flow-kill",
  "workflow-kill",
  "contract-redis",
  "workflow-poison-kill",
  "contract-pooler",
  "graph-poison-kill",
  "contract-encrypted",
  "workflow-recovery",
  "contract-dynamodb",
  "inbox-kill",
  "packets-crash",
  "contract-sqlite",
  "cli-flows",
  "graph-kill",
  "outbox-kill",
  "workflow-process-worker",
  "inbox-kafka",
  "contract-node24",
  "graph-simulation",
  "workflow-simulation",
  "workflow-sabotage",
  "stuck",
  "contract-redis-cluster",
  "redis-slot-move",
  "upgrade",
  "workflow-sufferings",
  "redis-failover",
  "workflow-determinism",
  "workflow-effects",
  "graph-crash",
  "graph-keys",
  "workflow-streams-kill",
  "http-kill",
  "values",
  "cli",
  "dynamodb-restart",
  "graph-flows",
  "graph-recovery",
  "server-kill",
  "transform-plugins",
  "inbox-redis-streams",
  "redis-restart",
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification) => {
      const place = longest.indexOf(basename(moduleId, ".test.ts"));
      return place === -1 ? longest.length : place;
    };
    return (await super.sort(files)).sort((a, b) => placeOf(a) - placeOf(b));
  }
}
