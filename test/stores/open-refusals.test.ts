import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ConfigurationError, InvalidInputError, key, once, open } from "onceflow";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { type Clock, systemClock } from "../../src/core/work/clock.js";
import { temporaryFolder } from "../kit/temporary-folder.js";

const folder = temporaryFolder(afterAll);

/** The password in each URL. No error message may contain it. */
const secret = "hunter2";
const postgres = `postgres://me:${secret}@127.0.0.1:1/db`;
const dynamodb = `dynamodb://AK:${secret}@eu-central-1/table`;
const mongodb = `mongodb://me:${secret}@127.0.0.1:1/db`;

describe("the URL is refused with an onceflow error that says what is wrong and contains no secrets", () => {
  test.for([
    ["memory:?name=a", /nothing more/],
    ["memory:orders", /nothing more/],
    [`sqlite:${folder}/a.db?mode=ro`, /cannot be opened read-only/],
    [`sqlite:${folder}/a.db?drvier=node:sqlite`, /unknown parameter "drvier". Did you mean "driver"\?/],
    [`sqlite:${folder}/a.db?driver=node:sqlite&driver=node:sqlite`, /"driver" more than once/],
    ["sqlite:%zz", /malformed/],
    [`${postgres}?shema=mine`, /unknown parameter "shema". Did you mean "schema"\?/],
    [`${postgres}?schema=a&schema=b`, /"schema" more than once/],
    [`${postgres}?sslmode=requires`, /unknown sslmode "requires".*verify-full/],
    [`postgres://me:${secret}%zz@127.0.0.1:1/db`, /percent sign/],
    [`postgres://me:${secret}@%zz/db`, /percent sign/],
    [`postgres://me:${secret}@127.0.0.1:1/%zz`, /percent sign/],
    [`redis://me:${secret}@127.0.0.1:1/0?prefx=a`, /unknown parameter "prefx". Did you mean "prefix"\?/],
    [`redis://me:${secret}@127.0.0.1:1/0?prefix=a&prefix=b`, /"prefix" more than once/],
    [`redis://me:${secret}%zz@127.0.0.1:1/0`, /malformed/],
    [`redis://me:${secret}@127.0.0.1:99999/0`, /malformed/],
    [`${mongodb}?prefx=a`, /unknown parameters: prefx/],
    [`mongodb://me:${secret}@127.0.0.1:1/%zz`, /percent sign/],
    [`mongodb://me:${secret}%zz@127.0.0.1:1/db`, /percent sign/],
    [`${dynamodb}?endpont=http://127.0.0.1:1`, /unknown parameter "endpont". Did you mean "endpoint"\?/],
    [`${dynamodb}?endpoint=nonsense`, /endpoint: is not an address/],
    [`${dynamodb}?endpoint=ftp://me:${secret}@host`, /endpoint: is not an address/],
    [`${dynamodb}?endpoint=http://%zz`, /endpoint: is not an address/],
    [`dynamodb://AK:${secret}%zz@eu-central-1/table`, /write % as %25/],
  ] as const)("%s", async ([url, message]) => {
    const error = await open(url).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(error).toMatchObject({ message: expect.stringMatching(message) });
    expect(`${error} ${(error as Error).stack}`).not.toContain(secret);
  });

  test.for([
    [`${postgres}?sslmode=verify-full&sslrootcert=/there/is/none.pem`, /sslrootcert.*ENOENT.*none\.pem/],
    [`${postgres}?sslcert=/there/is/none.pem`, /sslcert.*ENOENT/],
    [`${mongodb}?tls=true&tlsCAFile=/there/is/none.pem`, /tlsCAFile.*none\.pem/],
    [`sqlite:${folder}/junk.db`, /not a database/],
  ] as const)("%s", async ([url, message]) => {
    writeFileSync(join(folder, "junk.db"), "x".repeat(5000));
    const error = await open(url).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(ConfigurationError);
    expect(error).toMatchObject({ code: "STORE_NOT_USABLE", message: expect.stringMatching(message) });
    expect(`${error} ${(error as Error).stack}`).not.toContain(secret);
  });
});

describe.skipIf(process.platform === "win32")("a SQLite file that is deleted or replaced while its store is open", () => {
  test.for(["deleted", "replaced"] as const)("%s: a write 100 ms later is refused at once, and no effect happens", async (how) => {
    const path = join(folder, `${how}.db`);
    let passedMs = 0;
    const clock: Clock = { ...systemClock, now: () => systemClock.now() + passedMs };
    const store = await open(`sqlite:${path}`, { stallMsMax: 0, clock });
    onTestFinished(() => store.close());
    await once(store, { key: key.of("before") }, () => 1);
    if (how === "deleted") rmSync(path);
    else {
      const other = await open(`sqlite:${join(folder, "other.db")}`, { stallMsMax: 0 });
      await other.close();
      renameSync(join(folder, "other.db"), path);
    }
    passedMs += 100;
    let effects = 0;
    const error = await once(store, { key: key.of("after") }, () => ++effects).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: "STORE_NOT_USABLE", retryable: false, message: expect.stringContaining("deleted or replaced") });
    await expect(once(store, { key: key.of("in a transaction"), tx: true }, () => ++effects)).rejects.toMatchObject({
      code: "STORE_NOT_USABLE",
    });
    expect(effects).toBe(0);
  });
});
