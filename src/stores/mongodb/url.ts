import { existsSync } from "node:fs";
import { ConfigurationError } from "../../core/errors/errors.js";
import { checkEncoding } from "../url-parameters.js";

/** What `mongodb://host/database?prefix=…` says. */
export interface MongoAddress {
  /** The URL as the driver takes it. */
  readonly address: string;
  readonly database: string;
  readonly prefix?: string;
}

const databaseDefault = "onceflow";

/** `prefix` is ours and not the driver's. An address may name several hosts, which no other URL does: so it is cut by hand. */
export function parseMongoUrl(url: string): MongoAddress {
  const [place = "", query = ""] = url.split("?", 2);
  const parameters = new URLSearchParams(query);
  const prefix = parameters.get("prefix");
  parameters.delete("prefix");
  checkEncoding(place);
  const named = /^[^/]+\/\/[^/]+\/([^/]*)$/.exec(place)?.[1] ?? "";
  const rest = parameters.size > 0 ? `?${parameters}` : "";
  const address = `${place}${rest}`;
  checkFiles(address);
  const database = named === "" ? databaseDefault : decodeURIComponent(named);
  return { address, database, ...(prefix === null ? {} : { prefix }) };
}

const files = /[?&](tlsCAFile|tlsCertificateKeyFile|tlsCRLFile)=([^&]*)/gi;

/** The driver reads them when it connects, and would throw what the system says. */
function checkFiles(address: string): void {
  for (const [, name, value = ""] of address.matchAll(files)) {
    checkEncoding(value);
    const path = decodeURIComponent(value);
    if (!existsSync(path))
      throw new ConfigurationError(`[onceflow] [mongodb] the file that ${name} names in the URL is not there: "${path}"`, {
        code: "STORE_NOT_USABLE",
      });
  }
}
