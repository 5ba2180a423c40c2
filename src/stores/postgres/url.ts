import { accessSync, constants } from "node:fs";
import { ConfigurationError, InvalidInputError } from "../../core/errors/errors.js";
import { duration, leaseMsMax } from "../../core/ledger/options.js";
import { checkEncoding, checkParameters, wellFormed } from "../url-parameters.js";

/** The store's own parameters of a PostgreSQL URL; the rest is for the driver. */
export interface PostgresAddress {
  readonly url: string;
  readonly schema?: string;
  readonly connectMs?: number;
  readonly pooled?: boolean;
}

/** Parameters of libpq, which providers put into their URLs; the driver supports some of them. */
const ofLibpq =
  "host hostaddr port dbname user password passfile require_auth channel_binding connect_timeout client_encoding options application_name " +
  "fallback_application_name keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout replication gssencmode " +
  "sslmode sslnegotiation sslcompression sslcert sslkey sslpassword sslcertmode sslrootcert sslcrl sslcrldir sslsni requirepeer " +
  "ssl_min_protocol_version ssl_max_protocol_version krbsrvname gsslib gssdelegation service target_session_attrs load_balance_hosts";
/** Further parameters of the driver `pg`, of poolers and of database providers. */
const ofTheDriver =
  "ssl encoding binary uselibpqcompat statement_timeout query_timeout lock_timeout idle_in_transaction_session_timeout pgbouncer endpoint";

const ours = ["schema", "connectMs"];
const known = [...ours, ...ofLibpq.split(" "), ...ofTheDriver.split(" ")];
/** With any other mode the driver would connect without TLS. */
const sslModes = ["disable", "allow", "prefer", "require", "no-verify", "verify-ca", "verify-full"];
const files = ["sslcert", "sslkey", "sslrootcert"];

export function parsePostgresUrl(url: string): PostgresAddress {
  const parsed = wellFormed(() => new URL(url));
  const { searchParams } = parsed;
  checkEncoding(parsed.username, parsed.password, parsed.hostname, parsed.pathname);
  checkParameters(searchParams, known, `Parameters are ${ours.join(" and ")}, and those of libpq`);
  const sslmode = searchParams.get("sslmode");
  if (sslmode !== null && !sslModes.includes(sslmode))
    throw new InvalidInputError("url", `has an unknown sslmode "${sslmode}"; it must be one of ${sslModes.join(", ")}`);
  for (const name of files) checkFile(name, searchParams.get(name));
  const [schema, connectMs] = ours.map((name) => searchParams.get(name));
  for (const name of ours) searchParams.delete(name);
  return {
    url: parsed.href,
    ...(schema == null ? {} : { schema }),
    // Providers add it to the URLs of their poolers. Without it, a pooler is detected at the first connection.
    ...(searchParams.get("pgbouncer") === "true" ? { pooled: true } : {}),
    ...(connectMs == null ? {} : { connectMs: checkedConnectMs("url: connectMs", Number(connectMs)) }),
  };
}

/** Checks files named in the URL. The driver would throw the bare system error. */
function checkFile(name: string, path: string | null): void {
  // In libpq "system" means the certificates that the system trusts.
  if (path === null || path === "system") return;
  try {
    accessSync(path, constants.R_OK);
  } catch (cause) {
    const { code = "unreadable" } = cause as NodeJS.ErrnoException;
    throw new ConfigurationError(
      `[onceflow] [postgres] the file of ${name} in the URL cannot be read (${code}): "${path}". Correct the path, or the permissions of this user`,
      { code: "STORE_NOT_USABLE", cause },
    );
  }
}

export function checkedConnectMs(field: string, value: unknown): number {
  duration(field, value, 1, leaseMsMax);
  return value;
}
