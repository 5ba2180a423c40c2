import { InvalidInputError } from "../../core/errors/errors.js";
import { checkParameters, wellFormed } from "../url-parameters.js";

/** A parsed `dynamodb://region/table?…`. */
export interface DynamoAddress {
  readonly region: string;
  readonly table: string;
  readonly endpoint?: string;
  /** Default: the credentials that the SDK finds (environment, profile, role). */
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string };
  readonly partitionKey?: string;
  readonly ttlAttribute?: string;
  readonly create: boolean;
}

const parameters = ["endpoint", "partitionKey", "ttlAttribute", "create"];

export function parseDynamoUrl(url: string): DynamoAddress {
  const { hostname: region, username, password, pathname, searchParams } = wellFormed(() => new URL(url));
  const table = pathname.slice(1);
  // Error messages do not repeat the URL, which may contain a secret.
  if (!/^[a-z0-9-]+$/.test(region)) throw new InvalidInputError("url", "needs a region, such as dynamodb://eu-central-1/table");
  checkTable("url", table);
  checkParameters(searchParams, parameters);
  const create = searchParams.get("create") ?? "false";
  if (create !== "true" && create !== "false")
    throw new InvalidInputError("url", 'has the parameter create, which must be "true" or "false"');
  if ((username === "") !== (password === "")) throw new InvalidInputError("url", "needs both parts of its credentials, or none");
  const optional = (name: "endpoint" | "partitionKey" | "ttlAttribute") => {
    const value = searchParams.get(name);
    return value === null ? {} : { [name]: value };
  };
  if (/^dax|\.dax-clusters\./.test(searchParams.get("endpoint") ?? ""))
    throw new InvalidInputError("endpoint", "is a DAX cluster, whose cache returns old data; use the address of DynamoDB itself");
  checkEndpoint(searchParams.get("endpoint"));
  return {
    region,
    table,
    create: create === "true",
    ...optional("endpoint"),
    ...optional("partitionKey"),
    ...optional("ttlAttribute"),
    ...(username === "" ? {} : { credentials: { accessKeyId: decoded(username), secretAccessKey: decoded(password) } }),
  };
}

/** The message does not repeat the endpoint, which may contain a password. */
function checkEndpoint(endpoint: string | null): void {
  if (endpoint === null) return;
  const { protocol, hostname } = URL.canParse(endpoint) ? new URL(endpoint) : { protocol: "", hostname: "" };
  if (!/^https?:$/.test(protocol) || hostname === "")
    throw new InvalidInputError("endpoint", "is not an address; write it as http://host:8000 or https://host, percent-encoded in the URL");
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new InvalidInputError("url", "has credentials that are not percent-encoded; write % as %25");
  }
}

export function checkTable(field: string, table: string): void {
  if (!/^[A-Za-z0-9_.-]{3,255}$/.test(table))
    throw new InvalidInputError(field, "needs the name of a table: 3 to 255 letters, digits, and _ . -");
}
