import { open } from "onceflow";
import { describe, expect, test } from "vitest";

/** A FerretDB 1 that runs already: it takes minutes to build, so that no test run does. */
const url = process.env["ONCEFLOW_TEST_FERRETDB_URL"];

describe.skipIf(url === undefined)("FerretDB 1, which speaks MongoDB's protocol without transactions and pipelines in updates", () => {
  test("is refused at open, with the reason", async () => {
    await expect(open(url as string)).rejects.toMatchObject({
      code: "UNSUPPORTED_SERVER",
      message: expect.stringMatching(/an update that every begin needs.*use MongoDB 5\.0 or newer/),
    });
  });
});
