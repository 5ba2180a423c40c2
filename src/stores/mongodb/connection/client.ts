import { InvalidInputError } from "../../../core/errors/errors.js";
import { loadDriver, type MongoClient } from "../driver.js";

/** Of our own client, where the URL says nothing else. */
const settings = {
  appName: "onceflow",
  serverSelectionTimeoutMS: 5000,
  connectTimeoutMS: 5000,
  socketTimeoutMS: 15_000,
  // A server that was lost is looked for so often: at the driver's ten seconds, leases would lapse before it is found again.
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
    if (unknown !== undefined)
      throw new InvalidInputError("url", `has ${unknown}; ours is prefix, the others are those of the driver mongodb`);
    // What else the driver says about it may repeat the password.
    throw new InvalidInputError("url", "is malformed; write mongodb://user@host:27017/database, special characters as %XX");
  }
}

/** The driver names what it does not know: a parameter, and nothing of the rest of the URL. */
function unknownOptions(error: unknown): string | undefined {
  const found = /^options? ([\w, ]+) (?:is|are) not supported$/i.exec(error instanceof Error ? error.message : "");
  return found === null ? undefined : `unknown parameters: ${found[1]}`;
}
