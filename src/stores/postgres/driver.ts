import type pg from "pg";
import { ConfigurationError } from "../../core/errors/errors.js";

export type PgModule = typeof pg;
export type PgClient = Pick<pg.Client, "query">;

export async function loadDriver(): Promise<PgModule> {
  try {
    return (await import("pg")).default;
  } catch (error) {
    throw new ConfigurationError('[onceflow] [postgres] the package "pg" is not installed: npm install pg', {
      code: "MISSING_DRIVER",
      cause: error,
    });
  }
}

/** Reads 64-bit integers as numbers, not as strings: all integers of the store fit into a double. */
export const numberTypes = (pg: PgModule): pg.CustomTypesConfig => ({
  getTypeParser: ((oid: number, format?: "text" | "binary") =>
    oid === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(oid, format as "text")) as pg.CustomTypesConfig["getTypeParser"],
});
