import { InvalidInputError } from "../../../core/errors/errors.js";
import { digestOf, sameDigest } from "../../../core/values/secret.js";

const tokenCharsMin = 16;

/** The error message must not contain the token. */
export function checkToken(token: unknown): asserts token is string {
  if (typeof token === "string" && token.length >= tokenCharsMin && /^[\x21-\x7e]+$/.test(token)) return;
  throw new InvalidInputError("token", `must be ${tokenCharsMin} or more printable ASCII characters without spaces`);
}

/** Returns a function that says whether an `Authorization` header has the token. Without a token every caller is accepted. */
export function tokenCheck(token: string | undefined): (authorization: string | undefined) => boolean {
  if (token === undefined) return () => true;
  const digest = digestOf(token);
  return (authorization = "") => sameDigest(digest, digestOf(/^bearer +(\S+)$/i.exec(authorization.trim())?.[1] ?? ""));
}
