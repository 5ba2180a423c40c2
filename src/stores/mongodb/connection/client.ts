import { InvalidInputError } from "../../../core/errors/errors.js";
import { loadDriver, type MongoClient } from "../driver.js";

/** Default settings of the store's own client. The URL can override them. */
const settings = {
  appName: "onceflow",
  serverSelectionTimeoutMS: 5000,
  connectTimeoutMS: 5000,
  socketTimeoutMS: 15_000,
  // How often a lost server is checked. With the driver's default of ten seconds, leases would expire before it is found again.
  heartbeatFrequencyMS: 2000,
};

/** The client of a store that is opened by its URL. */
export async function ownClient(address: string): Promise<MongoClient> {
  const { MongoClient } = await loadDriver();
  try {
    const ours = Object.entries(settings).filter(([name]) => !new RegExp(`[?&]${name}=`, "i").test(address));
    return new MongoClient(address, Object.fromEntries(ours));
  } catch (error) {
    const unknown = unknownOptions(error);
    if (unknown !== undefined) throw new InvalidInputError("url", `has ${unknown}; parameters are prefix and those of the driver mongodb`);
    // The driver's own message may contain the password.
    throw new InvalidInputError("url", "is malformed; write mongodb://user@host:27017/database, special characters as %XX");
  }
}

/** The unknown parameters that the driver's message names. It names only those, not the rest of the URL. */
function unknownOptions(error: unknown): string | undefined {
  const found = /^options? ([\w, ]+) (?:is|are) not supported$/i.exec(error instanceof Error ? error.message : "");
  return found === null ? undefined : `unknown parameters: ${found[1]}`;
}
