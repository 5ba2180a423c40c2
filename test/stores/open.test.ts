import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { ConfigurationError, InvalidInputError, key, once, open, UnreachableError } from "onceflow";
import pg from "pg";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { freshDatabase } from "../servers/postgres/databases.js";

describe("open", () => {
  test.each([["mysql://localhost/x"], [""], ["onceflow.db"], ["constructor:"], [undefined]])(
    "refuses %j and lists the known schemes",
    async (url) => {
      const error = await open(url as string).catch((e: unknown) => e);
      expect(error).toBeInstanceOf(ConfigurationError);
      expect(error).toMatchObject({ code: "UNKNOWN_SCHEME", message: expect.stringContaining("sqlite:") });
    },
  );

  test("refuses SQLite without a file, and an unknown driver", async () => {
    await expect(open("sqlite:")).rejects.toThrow(InvalidInputError);
    await expect(open("sqlite::memory:")).rejects.toThrow(/use "memory:"/);
    await expect(open("sqlite:./x.db?driver=better")).rejects.toThrow(/unknown driver "better"/);
  });

  test("refuses a malformed URL without repeating it: it may hold a password", async () => {
    for (const url of ["postgres://me:secret@:x/", "sqlite:./100%.db"]) {
      const error = await open(url).catch((e: unknown) => e);
      expect(error).toMatchObject({ code: "INVALID_INPUT", field: "url" });
      expect(String(error)).not.toContain("secret");
    }
  });

  test("says which file cannot be opened", async () => {
    const folder = temporaryFolder(onTestFinished);
    await expect(open(`sqlite:${folder}`)).rejects.toThrow(UnreachableError);
    await expect(open(`sqlite:${folder}`)).rejects.toThrow(/cannot open/);
  });

  test("creates the folder of a file, and takes relative, absolute and three-slash URLs", async () => {
    const folder = temporaryFolder(onTestFinished);
    for (const url of [`sqlite:${folder}/a/b/one.db`, `sqlite://${folder}/two.db`]) await (await open(url)).close();
    expect(existsSync(join(folder, "a/b/one.db"))).toBe(true);
    expect(existsSync(join(folder, "two.db"))).toBe(true);
  });

  test("refuses a SQLite file whose schema is newer than this code", async () => {
    const path = join(temporaryFolder(onTestFinished), "newer.db");
    await (await open(`sqlite:${path}`)).close();
    const database = new DatabaseSync(path);
    database.exec("INSERT INTO onceflow_schema VALUES (999)");
    database.close();
    await expect(open(`sqlite:${path}`)).rejects.toMatchObject({ code: "SCHEMA_NEWER", message: expect.stringContaining("version 999") });
  });

  const postgres = inject("postgres");
  test.skipIf(!postgres.ok)("refuses a PostgreSQL schema that is newer, and an invalid schema name", async () => {
    const database = await freshDatabase(postgres.ok ? postgres.url : "");
    await (await open(`${database.url}?schema=mine`)).close();
    const client = new pg.Client(database.url);
    await client.connect();
    await client.query("INSERT INTO mine.schema_version VALUES (999)");
    await client.end();
    await expect(open(`${database.url}?schema=mine`)).rejects.toMatchObject({ code: "SCHEMA_NEWER" });
    await expect(open(`${database.url}?schema=${encodeURIComponent('x"; drop')}`)).rejects.toThrow(/schema: must be a plain/);
    await database.drop();
  });

  test("ten processes may open one new file at once", async () => {
    const path = join(temporaryFolder(onTestFinished), "at-once.db");
    const stores = await Promise.all(Array.from({ length: 10 }, () => open(`sqlite:${path}`)));
    const results = await Promise.all(stores.map((store) => once(store, { key: key.of("one") }, () => "mine")));
    expect(results.filter(({ status }) => status === "executed")).toHaveLength(1);
    await Promise.all(stores.map((store) => store.close()));
  });
});

describe("the process's own store", () => {
  const program = `
    import { configure, key, once, open } from "onceflow";
    if (process.argv[1] === "configured") configure({ store: await open("memory:") });
    const run = () => once({ key: key.of("ambient") }, () => "first");
    console.log((await run()).status, (await run()).status);`;
  const run = (cwd: string, env: NodeJS.ProcessEnv, ...args: string[]) =>
    execFileSync(
      process.execPath,
      [
        "--input-type=module",
        "-e",
        program.replace('"onceflow"', JSON.stringify(new URL("../../dist/exports/index.js", import.meta.url).href)),
        ...args,
      ],
      {
        cwd,
        env: { ...process.env, ...env },
        encoding: "utf8",
      },
    ).trim();

  test("is SQLite in .onceflow/ by default, and the next process finds its data", () => {
    const folder = temporaryFolder(onTestFinished);
    expect(run(folder, { ONCEFLOW_URL: "" })).toBe("executed replayed");
    expect(existsSync(join(folder, ".onceflow/onceflow.db"))).toBe(true);
    expect(run(folder, { ONCEFLOW_URL: "" })).toBe("replayed replayed");
  });

  test("is the one that ONCEFLOW_URL names", () => {
    const folder = temporaryFolder(onTestFinished);
    expect(run(folder, { ONCEFLOW_URL: "sqlite:./elsewhere.db" })).toBe("executed replayed");
    expect(existsSync(join(folder, "elsewhere.db"))).toBe(true);
  });

  test("is the one that configure() sets, which has priority over ONCEFLOW_URL", () => {
    const folder = temporaryFolder(onTestFinished);
    expect(run(folder, { ONCEFLOW_URL: "sqlite:./elsewhere.db" }, "configured")).toBe("executed replayed");
    expect(existsSync(join(folder, "elsewhere.db"))).toBe(false);
  });
});
