import { InvalidInputError } from "../../../core/errors/errors.js";

const schemes: readonly string[] = ["http:", "https:", "grpc:", "grpcs:"];

/** Checks the URL of a node server. Messages do not contain it, because it may have credentials. */
export function nodeUrl(text: unknown): URL {
  const wanted = "must be like http://127.0.0.1:4100 (or https, grpc, grpcs)";
  if (typeof text !== "string" || !URL.canParse(text)) throw new InvalidInputError("url", wanted);
  const url = new URL(text);
  if (!schemes.includes(url.protocol)) throw new InvalidInputError("url", wanted);
  if (url.username !== "" || url.password !== "")
    throw new InvalidInputError("url", "has a user name or password; use a token, which is not written into logs and documents");
  if (url.hostname === "" || url.search !== "" || url.hash !== "") throw new InvalidInputError("url", `${wanted}, without a query`);
  if (url.protocol.startsWith("grpc") && (url.port === "" || url.pathname.length > 1))
    throw new InvalidInputError("url", "of a gRPC server must have a port and no path: grpc://127.0.0.1:50051");
  return url;
}
