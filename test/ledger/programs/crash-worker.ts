import { writeSync } from "node:fs";
import { key, once, open, purge, type Resolution, resolve, type Store } from "onceflow";
import { type Backend, createStore } from "onceflow/store";
import type { CrashPoint } from "onceflow/testing";
import type { RunOperation } from "../../../src/core/runs/operation.js";
import { storesByScheme } from "../../../src/stores/registry.js";
import { withCrashPoint } from "../../../src/testing/crash-point.js";
import { watchStatements } from "../../programs/watch-statements.js";

/** Does one operation on a ledger and dies by SIGKILL at the given point. */
export interface Doom {
  readonly act: keyof typeof acts;
  /** Undefined: the test kills the process. "inside": in the transaction of a migration or a purge. */
  readonly point?: CrashPoint | MigrationPoint | "inside purge" | "inside run" | "inside reconcile";
  readonly url: string;
  readonly providerUrl?: string;
  readonly effect?: "keyed" | "atMostOnce";
  readonly tx?: boolean;
  /** For `resolve`. */
  readonly as?: Resolution;
  /** For `commit`. */
  readonly operation?: RunOperation;
  /**
   * For "inside" of a transaction: the number of the statement after BEGIN before which the process dies. The process prints that
   * statement on stderr. For "after a version": the version.
   */
  readonly nth?: number;
}

/** "after a version": leaves a database with the schema of that version. */
export type MigrationPoint = "before migration" | "inside migration" | "after migration" | "after a version";

const doom = JSON.parse(process.argv[2] ?? "") as Doom;
const { act, point, url, providerUrl = "", effect = "keyed", tx = false, as = "notApplied", nth } = doom;
const options = { key: key.of("crash"), leaseMs: 300 };
/** Without the heartbeat thread, which would renew the lease after the point, and takes long to start. */
const alone = { stallMsMax: 0 };

const acts = {
  once: (store: Store) => once(store, { ...options, effect, ...(tx ? { tx: true as const } : {}) }, call),
  /** Never ends by itself: its lease is renewed repeatedly. */
  hold: (store: Store) => once(store, { ...options, effect }, () => new Promise<never>(() => {})),
  resolve: (store: Store) => resolve(store, { key: "crash", attempt: 1 }, as),
  reconcile: (store: Store) => once(store, { ...options, effect: "reconcile", reconcileAfterMs: 0, reconcile: found }, call),
  /** In one turn: one flush answers all three, and one write logs them. */
  ask: async (store: Store) => {
    await Promise.all([1, 2, 3].map(() => once(store, options, call)));
    await store.close();
  },
  purge: (store: Store) => purge(store),
  commit: (store: Store) => store.commit({ run: doom.operation as RunOperation }),
  claim: (store: Store) => store.runs.claim({ owner: "doomed", workflows: ["work"], leaseMs: 3_600_000, limit: 10 }),
  open: async () => {},
};

// The listener also keeps a process alive that only holds a lease.
process.on("disconnect", () => process.exit());
await acts[act](await openDoomed());
console.error("the process did not die at its crash point");
process.exit();

function die(): void {
  process.kill(process.pid, "SIGKILL");
}

async function openDoomed(): Promise<Store> {
  switch (point) {
    case undefined:
    case "inside reconcile":
      return await open(url, alone);
    case "before migration":
    case "inside migration":
    case "after migration":
      (await dieInTransaction(point)).arm();
      return await open(watchedUrl(), alone);
    case "after a version":
      await commitVersion(nth ?? 1);
      return await open(watchedUrl(), alone);
    case "inside run":
    case "inside purge": {
      const transaction = await dieInTransaction(point);
      const store = await open(watchedUrl(), alone);
      transaction.arm();
      return store;
    }
    case "before renew":
    case "after renew":
    case "before audit":
    case "after audit":
      return createStore(withCrashPoint(await openBackend(), point, die), { audit: "all" });
    default:
      return withCrashPoint(await open(url, alone), point, die);
  }
}

/** Once it is armed: dies before the next BEGIN, before a later statement, or after the next COMMIT. */
async function dieInTransaction(where: string): Promise<{ arm(): void }> {
  let armed = false;
  let statements: number | undefined;
  await watchStatements(url, {
    before(sql) {
      if (!armed) return;
      if (statements !== undefined) statements += 1;
      else if (sql.startsWith("BEGIN")) statements = 0;
      if (where.startsWith("before") && statements === 0) die();
      if (where.startsWith("inside") && statements === nth) {
        writeSync(process.stderr.fd, sql);
        die();
      }
    },
    after(sql) {
      if (armed && where.startsWith("after") && sql === "COMMIT") die();
    },
  });
  return {
    arm() {
      armed = true;
    },
  };
}

async function commitVersion(version: number): Promise<void> {
  let versions = 0;
  await watchStatements(url, {
    before() {},
    after(sql, send) {
      if (/^INSERT INTO \S*schema/.test(sql)) versions += 1;
      if (versions < version) return undefined;
      const sent = send("COMMIT");
      return sent instanceof Promise ? sent.then(die) : die();
    },
  });
}

function watchedUrl(): string {
  return url.startsWith("sqlite:") ? `${url}?driver=@photostructure/sqlite` : url;
}

/** The backend from which `open` makes a store. */
async function openBackend(): Promise<Backend> {
  const load = storesByScheme.get(url.slice(0, url.indexOf(":") + 1));
  if (load === undefined) throw new Error(`no store for ${url}`);
  return await (await load()).openUrl(url, alone);
}

function found(): { found: { attempt: number } } {
  if (point === "inside reconcile") die();
  return { found: { attempt: 1 } };
}

async function call(attempt: { readonly effectKey: string; readonly number: number; readonly tx?: object }): Promise<{ attempt: number }> {
  if (attempt.tx) await insertRow(attempt.tx, attempt.number);
  else await fetch(providerUrl, { method: "POST", headers: { "idempotency-key": attempt.effectKey, "x-attempt": String(attempt.number) } });
  return { attempt: attempt.number };
}

async function insertRow(handle: object, attempt: number): Promise<void> {
  if ("prepare" in handle)
    (handle as { prepare(sql: string): { run(n: number): void } }).prepare("INSERT INTO business VALUES (?)").run(attempt);
  else await (handle as { query(sql: string, values: number[]): Promise<void> }).query("INSERT INTO business VALUES ($1)", [attempt]);
}
