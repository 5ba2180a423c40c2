import { InvalidInputError } from "../../core/errors/errors.js";
import { checkParameters } from "../url-parameters.js";
import type { RedisBackendOptions } from "./backend.js";

/**
 * A parsed URL, in one of these forms:
 *
 *   redis://user:password@host:6379/0        rediss:// the same over TLS
 *   redis+cluster://host:6379,host:6380      rediss+cluster://
 *   redis+sentinel://host:26379,host:26380/name-of-the-master/0     rediss+sentinel://
 */
export interface RedisAddress {
  readonly kind: "single" | "cluster" | "sentinel";
  readonly tls: boolean;
  readonly hosts: readonly Host[];
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly database: number;
  /** The sentinels' name for the master. */
  readonly master: string;
  readonly options: Readonly<Record<string, string>>;
}

export interface Host {
  readonly host: string;
  readonly port: number;
}

const shape = /^redis(s?)(?:\+(cluster|sentinel))?:\/\/(?:([^/?#@]*)@)?([^/?#@]*)(\/[^?#]*)?(?:\?([^#]*))?$/;
const known = ["prefix", "strict", "waitReplicas", "waitMs", "name"];

/** Error messages do not repeat the URL, which may contain a password. */
export function parseRedisUrl(url: string): RedisAddress {
  const parts = shape.exec(url);
  if (parts === null) throw malformed();
  const [, tls, form, login = "", hosts = "", path = "", query = ""] = parts;
  const kind = (form ?? "single") as RedisAddress["kind"];
  const colon = login.indexOf(":");
  const user = decoded(colon < 0 ? login : login.slice(0, colon));
  const names = path.split("/").slice(1).map(decoded);
  const master = kind === "sentinel" ? (names.shift() ?? "") : "";
  const database = Number(names.shift() || "0");
  if (names.length > 0 || !Number.isInteger(database) || database < 0) throw malformed();
  if (kind === "sentinel" && master === "")
    throw new InvalidInputError("url", "needs the name of the master: redis+sentinel://host:26379/mymaster");
  if (kind === "cluster" && database !== 0) throw new InvalidInputError("url", "names a database; a Redis Cluster has only one");
  const all = hosts.split(",").map((text) => hostOf(text, kind === "sentinel" ? 26379 : 6379));
  if (kind === "single" && all.length > 1)
    throw new InvalidInputError("url", "names several hosts; write redis+cluster:// or redis+sentinel://");
  const parameters = new URLSearchParams(query);
  checkParameters(parameters, known);
  const options = Object.fromEntries(parameters);
  return {
    kind,
    tls: tls === "s",
    hosts: all,
    username: user === "" ? undefined : user,
    password: colon < 0 ? undefined : decoded(login.slice(colon + 1)),
    database,
    master,
    options,
  };
}

/** The parameters that are settings of the store. */
export function settingsOf({ options: { prefix, strict, waitReplicas, waitMs = "1000" } }: RedisAddress): RedisBackendOptions {
  return {
    ...(prefix === undefined ? {} : { prefix }),
    ...(strict === undefined ? {} : { strict: booleanOf("strict", strict) }),
    ...(waitReplicas === undefined
      ? {}
      : { waitReplicas: { count: numberOf("waitReplicas", waitReplicas), timeoutMs: numberOf("waitMs", waitMs) } }),
  };
}

function booleanOf(name: string, text: string): boolean {
  if (text !== "true" && text !== "false") throw new InvalidInputError("url", `${name} must be true or false`);
  return text === "true";
}

function numberOf(name: string, text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidInputError("url", `${name} must be a whole number`);
  return Number(text);
}

function hostOf(text: string, usual: number): Host {
  const parts = /^(\[[0-9a-fA-F:.]+\]|[^:[\]]*)(?::(\d{1,5}))?$/.exec(text);
  if (parts === null) throw malformed();
  const [, host = "", port] = parts;
  if (Number(port ?? 0) > 65_535 || /\s/.test(host)) throw malformed();
  return { host: host === "" ? "127.0.0.1" : host.replace(/^\[|\]$/g, ""), port: port === undefined ? usual : Number(port) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw malformed();
  }
}

function malformed(): InvalidInputError {
  return new InvalidInputError(
    "url",
    "is malformed; write redis://user:password@host:6379/0, redis+cluster://host:6379,host:6380 or redis+sentinel://host:26379/mymaster/0, special characters as %XX",
  );
}
