/**
 * How much the tests do. `npm test` is the quick tier: every kind of proof, with fewer seeds, keys and kills.
 * ONCEFLOW_TESTS=full is the full tier: all of them, and the files below.
 */
const tiers = ["quick", "full"] as const;

const tier = process.env["ONCEFLOW_TESTS"] ?? "quick";
if (!(tiers as readonly string[]).includes(tier)) throw new Error(`ONCEFLOW_TESTS: must be quick or full, is ${JSON.stringify(tier)}`);

export const isFull: boolean = tier === "full";

/** How many seeds, keys or kills a test has. */
export function effort({ quick, full }: { readonly quick: number; readonly full: number }): number {
  return isFull ? full : quick;
}

/** All rows in the full tier. In the quick tier one row of every `of`; since similar rows stand together, each kind is still tested. */
export function sample<T>(rows: readonly T[], of: number): readonly T[] {
  return isFull ? rows : rows.filter((_, i) => i % of === 0);
}

/** Files of the full tier only, below test/, and what the quick tier has in their place. */
export const fullOnly: Readonly<Record<string, string>> = {
  "clients/guide.test.ts": "runs the programs of the guide in Python and Go; clients/calls.test.ts makes the same calls",
  "contract/encrypted.test.ts": "the contract of memory and SQLite a second time; ledger/encryption.test.ts has what encryption adds",
  "contract/node24.test.ts": "the contract of SQLite a second time, on another Node",
  "contract/pooler.test.ts": "the contract of PostgreSQL a second time, through PgBouncer",
  "contract/redis-cluster.test.ts": "the contract of Redis a second time, on a cluster; stores/redis/failover.test.ts has a cluster, too",
  "contract/sabotage.test.ts": "shows that the contract finds faulty stores, which changes with the contract alone",
  "graph/crashes/poison-kill.test.ts":
    "graph/crashes/suspects.test.ts has the same rules on virtual time, workflow/crashes/poison-kill.test.ts real deaths",
  "graph/crashes/sabotage.test.ts": "shows that the simulator finds faults, which changes with the simulator alone",
  "inbox/kafka.test.ts": "the slowest broker; the others run the same suite, inbox/brokers/suite.ts",
  "http/conformance.test.ts": "shows that the conformance suite finds faulty servers; cli/conformance.test.ts runs it against good ones",
  "inbox/bullmq.test.ts": "inbox/redis-streams.test.ts runs the same suite, inbox/brokers/suite.ts",
  "inbox/nats.test.ts": "inbox/redis-streams.test.ts runs the same suite, inbox/brokers/suite.ts",
  "inbox/rabbitmq.test.ts": "inbox/redis-streams.test.ts runs the same suite, inbox/brokers/suite.ts",
  "inbox/sqs.test.ts": "inbox/redis-streams.test.ts runs the same suite, inbox/brokers/suite.ts",
  "nodes/generate-go.test.ts": "compiles generated Go, which changes with the generator; cli/cli.test.ts generates types",
  "nodes/go-modules.test.ts": "the Go SDK's own tests, which change with the SDK; nodes/go.test.ts has the conformance suite",
  "nodes/python-tls.test.ts": "certificates of the Python server; nodes/tls.test.ts has those of the TypeScript server and of the client",
  "nodes/python-sdk.test.ts": "the Python SDK's own tests; nodes/python.test.ts runs the conformance suite with its server",
  "package/bundle.test.ts": "bundles the package with three bundlers; package/package.test.ts loads every subpath of it",
  "package/commonjs.test.ts": "tsx, ts-node and Jest on two versions of Node; package/package.test.ts loads every subpath",
  "package/docs.test.ts": "runs every sample of the docs, which changes with the docs and the public API",
  "package/types.test.ts":
    "compiles apps against the packed types, which change with the public types alone; npm run types compiles the sources",
  "stores/postgres/isolation.test.ts": "other default isolation levels; contract/postgres.test.ts runs at the server's own default",
  "stores/redis/slot-move.test.ts": "stores/redis/failover.test.ts moves a slot under load",
  "stores/mongodb/passing-errors.test.ts": "stores/postgres/passing-errors.test.ts has the same errors on PostgreSQL",
  "stores/upgrade.test.ts": "data of earlier versions in every store, which changes with the migrations",
  "transform/plugins.test.ts": "the same app with every bundler; transform/register.test.ts has it with the Node loader",
  "workflow/compat/former-names.test.ts": "names of steps of earlier releases, which change with the transform alone",
  "workflow/crashes/sabotage.test.ts": "shows that the simulator finds faults, which changes with the simulator alone",
  "workflow/crashes/sabotaged-stops.test.ts": "shows that the simulator finds faults, which changes with the simulator alone",
  "workflow/crashes/sabotaged-actions.test.ts": "shows that the simulator finds faults, which changes with the simulator alone",
};
