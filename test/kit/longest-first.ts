import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Paths below test/, without `.test.ts`. They start in this order, before all other files: a long file that starts last runs alone while the other processors idle.
 *
 * Files that take turns (heavy.ts) are not neighbours: in parallel one would only wait for the other, and keep
 * a worker from files that could run.
 */
export const longest: readonly string[] = [
  "ledger/crash-table",
  "contract/postgres",
  "contract/mongodb",
  "ledger/kill",
  "contract/differential",
  "flow/kill",
  "workflow/crashes/kill",
  "contract/redis",
  "workflow/crashes/poison-kill",
  "contract/pooler",
  "graph/crashes/poison-kill",
  "contract/encrypted",
  "workflow/crashes/recovery",
  "contract/dynamodb",
  "inbox/kill",
  "packets/crash",
  "contract/sqlite",
  "cli/flows",
  "graph/crashes/kill",
  "outbox/kill",
  "workflow/runs/process-worker",
  "inbox/kafka",
  "contract/node24",
  "graph/crashes/simulation",
  "workflow/operate/late-owner",
  "workflow/crashes/simulation",
  "workflow/crashes/sabotage",
  "workflow/crashes/stuck",
  "contract/redis-cluster",
  "stores/redis/slot-move",
  "stores/upgrade",
  "runs/crash",
  "workflow/crashes/known-problems",
  "stores/redis/failover",
  "workflow/steps/determinism",
  "workflow/operate/retry-kill",
  "workflow/steps/effects",
  "graph/crashes/crash",
  "graph/keys",
  "workflow/streams/kill",
  "http/kill",
  "ledger/values",
  "cli/cli",
  "stores/dynamodb/restart",
  "graph/flows",
  "clients/crashes",
  "graph/crashes/recovery",
  "server/kill",
  "transform/plugins",
  "server/webhook-kill",
  "inbox/redis-streams",
  "stores/redis/restart",
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification) => {
      const place = longest.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
      return place === -1 ? longest.length : place;
    };
    return (await super.sort(files)).sort((a, b) => placeOf(a) - placeOf(b));
  }
}
