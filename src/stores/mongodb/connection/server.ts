import type { Db } from "mongodb";
import { ConfigurationError } from "../../../core/errors/errors.js";
import type { MongoClient } from "../driver.js";
import { codeOf, isDuplicateKey, isKnownToPass } from "../errors.js";
import type { Collections } from "../layout.js";
import { now } from "../ledger/expressions.js";

/** The version of the collections' format. */
const schemaVersion = 1;
/** The wire version of MongoDB 5.0. (A strict API refuses the command that returns the server's version.) */
const wireVersionMin = 13;

export interface ServerKind {
  /** It is part of a replica set or sharded cluster, and so has transactions and change streams. */
  readonly replicated: boolean;
  /** It is a mongos, whose own clock is `$$NOW`. */
  readonly routed: boolean;
}

/** Finds out whether the server is a member of a replica set, a router, or standalone. Throws ConfigurationError if it is too old. */
export async function inspectServer(database: Db): Promise<ServerKind> {
  const { maxWireVersion, setName, msg } = await database.command({ hello: 1 });
  if (!(maxWireVersion >= wireVersionMin)) throw unsupported(`this server is too old (its wire version is ${maxWireVersion})`);
  const routed = msg === "isdbgrid";
  return { replicated: typeof setName === "string" || routed, routed };
}

/** Warns about missing features of the server, and about settings of the client that the store overrides. */
export function sayWhatIsUnusual({ writeConcern, readPreference }: MongoClient, { replicated, routed }: ServerKind): void {
  if (routed)
    warn(
      "behind mongos leases use the clock of each router: keep the clocks of all routers within two thirds of the shortest leaseMs, or a running attempt may be taken over; sharded clusters have not been tested",
    );
  if (!replicated)
    warn(
      "this server is not in a replica set: it has no transactions, so the store supports once() but no workflows, and there is no copy if its disk fails",
    );
  const w = writeConcern?.w;
  if ((w !== undefined && w !== "majority") || writeConcern?.journal === false)
    warn(`the client writes with w: ${JSON.stringify(w)}; the store writes its own collections with w: "majority", j: true anyway`);
  if (readPreference !== undefined && readPreference.mode !== "primary")
    warn(`the client reads from "${readPreference.mode}"; the store reads its own collections from the primary anyway`);
}

/**
 * Tests with one write the features that every begin needs: an update by a pipeline, with the server's time, and a projected result.
 * Some servers with the same protocol lack one of them, and leases there would have a wrong length.
 */
export async function requireMeaning({ meta }: Collections): Promise<void> {
  const ask = () =>
    meta.findOneAndUpdate({ _id: "schema" }, [{ $set: { version: { $ifNull: ["$version", schemaVersion] } } }], {
      upsert: true,
      returnDocument: "after",
      projection: { _id: 0, version: 1, now },
    });
  const found = await ask()
    .then((first) => (isProjected(first) ? first : ask()))
    .catch((error: unknown) => {
      if (isDuplicateKey(error)) return ask();
      throw error;
    })
    .catch((error: unknown) => {
      if (codeOf(error) === 13) throw notAllowed(error);
      // A permanent refusal by the server; not a lost connection or an election.
      const refused = error instanceof Error && error.name === "MongoServerError" && !isKnownToPass(error);
      throw refused ? unsupported(`this server refuses an update that every begin needs: ${error.message}`, error) : error;
    });
  const answer = found as unknown as { readonly version: number; readonly now: unknown } | null;
  if (typeof answer?.now !== "number" || typeof answer.version !== "number")
    throw unsupported("this server does not support updates by pipelines with the server's clock");
  if (answer.version > schemaVersion)
    throw new ConfigurationError(
      `[onceflow] [mongodb] these collections have version ${answer.version}, but this version of onceflow supports ${schemaVersion}: update onceflow before opening them`,
      { code: "SCHEMA_NEWER" },
    );
}

/** False if the driver has retried the write itself: then the reply has no projection. Sent once more, it writes nothing. */
function isProjected(found: object | null): boolean {
  return found !== null && "now" in found;
}

function notAllowed(cause: unknown): ConfigurationError {
  const message = "[onceflow] [mongodb] this user may not write here: it needs the role readWrite on the database";
  return new ConfigurationError(message, { code: "MISSING_CAPABILITY", cause });
}

function unsupported(why: string, cause?: unknown): ConfigurationError {
  return new ConfigurationError(`[onceflow] [mongodb] ${why}; use MongoDB 5.0 or newer`, { code: "UNSUPPORTED_SERVER", cause });
}

function warn(message: string): void {
  process.emitWarning(`[onceflow] [mongodb] ${message}`, { type: "OnceflowWarning", code: "ONCEFLOW_MONGODB" });
}
