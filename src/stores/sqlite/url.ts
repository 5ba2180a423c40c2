import { resolve } from "node:path";
import { InvalidInputError } from "../../core/errors/errors.js";
import { checkParameters, wellFormed } from "../url-parameters.js";
import type { SqliteDriver } from "./driver.js";

/** A parsed `sqlite:./file.db?driver=…`. */
export interface SqliteAddress {
  readonly path: string;
  readonly driver?: SqliteDriver;
}

export function parseSqliteUrl(url: string): SqliteAddress {
  const [path = "", query = ""] = url.slice("sqlite:".length).split("?");
  const parameters = new URLSearchParams(query);
  if (parameters.has("mode"))
    throw new InvalidInputError(
      "url",
      'has the parameter "mode"; a store cannot be opened read-only, because every begin and settle writes. Remove the parameter',
    );
  checkParameters(parameters, ["driver"]);
  const driver = parameters.get("driver");
  if (path === "" || path === ":memory:")
    throw new InvalidInputError("url", 'needs a file, such as "sqlite:./onceflow.db"; or use "memory:"');
  if (driver !== null && driver !== "node:sqlite" && driver !== "@photostructure/sqlite")
    throw new InvalidInputError("url", `has an unknown driver "${driver}"; use node:sqlite or @photostructure/sqlite`);
  const file = resolve(wellFormed(() => decodeURIComponent(path.replace(/^\/\/(?=\/|\.)/, ""))));
  return { path: file, ...(driver === null ? {} : { driver }) };
}
