import { InvalidInputError } from "../../core/errors.js";
import { duration, leaseMsMax } from "../../core/options.js";

/** What a PostgreSQL URL says to us; the rest of it is the driver's. */
export interface PostgresAddress {
  readonly url: string;
  readonly schema?: string;
  readonly connectMs?: number;
  readonly pooled?: boolean;
}

/** Parameters of libpq, which providers put into the URLs that they hand out; the driver knows some of them. */
const ofLibpq =
  "host hostaddr port dbname user password passfile require_auth channel_binding connect_timeout client_encoding options application_name " +
  "fallback_application_name keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout replication gssencmode " +
  "sslmode sslnegotiation sslcompression sslcert sslkey sslpassword sslcertmode sslrootcert sslcrl sslcrldir sslsni requirepeer " +
  "ssl_min_protocol_version ssl_max_protocol_version krbsrvname gsslib gssdelegation service target_session_attrs load_balance_hosts";
/** What else the driver `pg` reads, and what poolers and hosts of databases add. */
const ofTheDriver =
  "ssl encoding binary uselibpqcompat statement_timeout query_timeout lock_timeout idle_in_transaction_session_timeout pgbouncer endpoint";

const ours = ["schema", "connectMs"];
const known: ReadonlySet<string> = new Set([...ours, ...ofLibpq.split(" "), ...ofTheDriver.split(" ")]);

export function parsePostgresUrl(parsed: URL): PostgresAddress {
  const { searchParams } = parsed;
  for (const name of searchParams.keys())
    if (!known.has(name))
      throw new InvalidInputError(
        "url",
        `has an unknown parameter "${name}"; ours are ${ours.join(" and ")}, the others are those of libpq`,
      );
  const [schema, connectMs] = ours.map((name) => searchParams.get(name));
  for (const name of ours) searchParams.delete(name);
  return {
    url: parsed.href,
    ...(schema == null ? {} : { schema }),
    // As providers write it in the URLs of their poolers. Without it a pooler is found out at the first connection.
    ...(searchParams.get("pgbouncer") === "true" ? { pooled: true } : {}),
    ...(connectMs == null ? {} : { connectMs: checkedConnectMs("url: connectMs", Number(connectMs)) }),
  };
}

export function checkedConnectMs(field: string, value: unknown): number {
  duration(field, value, 1, leaseMsMax);
  return value;
}
