import { join } from "node:path";
import { open } from "onceflow";
import { expect, onTestFinished, test } from "vitest";
import { chooseDriver, openDatabase } from "../../../src/stores/sqlite/driver.js";
import { temporaryFolder } from "../../kit/temporary-folder.js";

test("an up-to-date file is opened at once, also while another connection writes to it", async () => {
  const folder = temporaryFolder(onTestFinished);
  const path = join(folder, "ledger.db");
  await (await open(`sqlite:${path}`)).close();
  const other = openDatabase(path, chooseDriver());
  onTestFinished(() => void other.close());
  other.exec("BEGIN IMMEDIATE");
  const store = await open(`sqlite:${path}`);
  expect(() => other.exec("COMMIT")).not.toThrow();
  await store.close();
});
