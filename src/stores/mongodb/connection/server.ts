import type { Db } from "mongodb";
import { ConfigurationError } from "../../../core/errors/errors.js";
import type { MongoClient } from "../driver.js";
import { codeOf, isDuplicateKey, isKnownToPass } from "../errors.js";
import type { Collections } from "../layout.js";
import { now } from "../ledger/expressions.js";

/** The version of what is in the collections. */
const schemaVersion = 1;
/** What servers of 5.0 say first. The number of their version would be a command that a strict API refuses. */
const wireVersionMin = 13;

export interface ServerKind {
  /** It has transactions and change streams. */
  readonly replicated: boolean;
  /** It is a mongos, whose clock is `$$NOW`. */
  readonly routed: boolean;
}

/** What the server is: a member of a replica set or a router, or one that stands alone. Too old a one is refused. */
export async function inspectServer(database: Db): Promise<ServerKind> {
  const { maxWireVersion, setName, msg } = await database.command({ hello: 1 });
  if (!(maxWireVersion >= wireVersionMin)) throw unsupported(`this server is too old (its wire version is ${maxWireVersion})`);
  const routed = msg === "isdbgrid";
  return { replicated: typeof setName === "string" || routed, routed };
}

/** What a server cannot do, and what the client asks for and does not get: our collections have their own settings. */
export function sayWhatIsUnusual({ writeConcern, readPreference }: MongoClient, { replicated, routed }: ServerKind): void {
  if (routed)
    warn(
      "behind mongos the time is each router's own: keep the clocks of all routers within two thirds of the shortest leaseMs, or a living attempt is taken over; sharded clusters have never been tested",
    );
  if (!replicated)
    warn(
      "this server is in no replica set: it has no transactions, so there is the ledger and no workflows; and what its disk loses is lost",
    );
  const w = writeConcern?.w;
  if ((w !== undefined && w !== "majority") || writeConcern?.journal === false)
    warn(
      `the client writes with w: ${JSON.stringify(w)}; the store's own collections are written with w: "majority", j: true all the same`,
    );
  if (readPreference !== undefined && readPreference.mode !== "primary")
    warn(`the client reads from "${readPreference.mode}"; the store's own collections are read from the primary all the same`);
}

/**
 * One write that does what every begin does: an update by a pipeline, with the server's time, whose result is computed.
 * There are servers of the same protocol that do not know one of these; a lease there would be as long as nobody knows.
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
      // What the server itself says no to, for good; not a connection that is lost, or an election.
      const refused = error instanceof Error && error.name === "MongoServerError" && !isKnownToPass(error);
      throw refused ? unsupported(`this server refuses what every begin does: ${error.message}`, error) : error;
    });
  const answer = found as unknown as { readonly version: number; readonly now: unknown } | null;
  if (typeof answer?.now !== "number" || typeof answer.version !== "number")
    throw unsupported("this server does not know updates by pipelines that go by its own clock");
  if (answer.version > schemaVersion)
    throw new ConfigurationError(
      `[onceflow] [mongodb] these collections have version ${answer.version}, and this code knows ${schemaVersion}: update onceflow before opening them`,
      { code: "SCHEMA_NEWER" },
    );
}

/** A write that the driver has sent again by itself is answered without the projection: asked once more, it is not written. */
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
