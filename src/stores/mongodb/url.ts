import { existsSync } from "node:fs";
import { ConfigurationError } from "../../core/errors/errors.js";
import { checkEncoding } from "../url-parameters.js";

/** A parsed `mongodb://host/database?prefix=…`. */
export interface MongoAddress {
  /** The URL without the store's own parameters, for the driver. */
  readonly address: string;
  readonly database: string;
  readonly prefix?: string;
}

const databaseDefault = "onceflow";

/** Separates the store's parameter `prefix` from those of the driver. Not with `URL`, because the address may have several hosts. */
export function parseMongoUrl(url: string): MongoAddress {
  const [base = "", query = ""] = url.split("?", 2);
  const parameters = new URLSearchParams(query);
  const prefix = parameters.get("prefix");
  parameters.delete("prefix");
  checkEncoding(base);
  const named = /^[^/]+\/\/[^/]+\/([^/]*)$/.exec(base)?.[1] ?? "";
  const rest = parameters.size > 0 ? `?${parameters}` : "";
  const address = `${base}${rest}`;
  checkFiles(address);
  const database = named === "" ? databaseDefault : decodeURIComponent(named);
  return { address, database, ...(prefix === null ? {} : { prefix }) };
}

const files = /[?&](tlsCAFile|tlsCertificateKeyFile|tlsCRLFile)=([^&]*)/gi;

/** Checks files named in the URL. The driver reads them when it connects, and would throw the bare system error. */
function checkFiles(address: string): void {
  for (const [, name, value = ""] of address.matchAll(files)) {
    checkEncoding(value);
    const path = decodeURIComponent(value);
    if (!existsSync(path))
      throw new ConfigurationError(`[onceflow] [mongodb] the file of ${name} in the URL does not exist: "${path}"`, {
        code: "STORE_NOT_USABLE",
      });
  }
}
