import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ConfigurationError, inspect, key, once, open, type Store, UnreachableError } from "onceflow";
import { step, work, workflow } from "onceflow/workflow";
import { getRun, start } from "onceflow/workflow/api";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import { chooseDriver, openDatabase } from "../../../src/stores/sqlite/driver.js";
import { beginOf } from "../../../src/testing/contract/ledger/operations.js";
import { temporaryFolder } from "../../kit/temporary-folder.js";
import { thrownBy } from "../../kit/thrown-by.js";
import { until } from "../../kit/until.js";
import { captureWarnings } from "../../kit/warnings.js";
import { effect, effects, expectDoneOnce } from "../counted-effects.js";
import { fastClock } from "../fast-clock.js";

const folder = () => temporaryFolder(onTestFinished);

interface SmallDisk {
  readonly path: string;
  /** Uses up all free space. */
  fill(): void;
  empty(): void;
  /** Mounts the file system a second time, read-only, and returns the path of the file there. */
  mountReadOnly(): string;
}

/** Mounts a new file system of one megabyte. */
function smallDisk({ skip }: TestContext): SmallDisk {
  const at = folder();
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", at], { stdio: "ignore" });
  } catch {
    return skip("this user may not mount a file system");
  }
  onTestFinished(() => void execFileSync("umount", ["-l", at]));
  const ballast = join(at, "ballast");
  return {
    path: join(at, "store.db"),
    fill() {
      for (let size = 1024 * 1024; size >= 512; size = Math.floor(size / 2)) {
        for (let full = false; !full; ) {
          try {
            writeFileSync(ballast, Buffer.alloc(size), { flag: "a" });
          } catch {
            full = true;
          }
        }
      }
    },
    empty: () => rmSync(ballast, { force: true }),
    mountReadOnly() {
      const other = folder();
      execFileSync("mount", ["--bind", at, other]);
      onTestFinished(() => void execFileSync("umount", ["-l", other]));
      execFileSync("mount", ["-o", "remount,bind,ro", other]);
      return join(other, "store.db");
    },
  };
}

describe("a SQLite file that another connection has locked (SQLITE_BUSY)", () => {
  async function openLockable(times: number) {
    const path = join(folder(), "store.db");
    const store = await open(`sqlite:${path}`, { stallMsMax: 0, purgeEveryMs: 0, clock: fastClock(times) });
    const other = openDatabase(path, chooseDriver());
    onTestFinished(async () => {
      other.close();
      await store.close();
    });
    return { path, store, lock: () => other.exec("BEGIN IMMEDIATE"), unlock: () => other.exec("COMMIT") };
  }

  test("at a begin, and at a settle: the effect runs once, and its result is kept", async () => {
    const { path, store, lock, unlock } = await openLockable(1);
    // The witness gives up after a fifth of a second: its error proves that the file was locked for that long.
    const witness = await open(`sqlite:${path}`, { stallMsMax: 0, purgeEveryMs: 0, clock: fastClock(50) });
    onTestFinished(() => witness.close());
    const expectLocked = async () => {
      const error = await thrownBy(witness.commit({ ledger: beginOf({ key: "witness" }) }));
      expect(error.message).toContain("was locked by another writer");
    };
    const name = "locked for a moment";
    let ran = false;
    lock();
    const charged = once(store, { key: key.of(name), leaseMs: 60_000 }, () => {
      lock();
      ran = true;
      return effect(name);
    });
    await expectLocked();
    expect(effects.get(name)).toBeUndefined();
    unlock();
    await until("the handler has run", () => ran);
    await expectLocked();
    unlock();
    expect(await charged).toMatchObject({ status: "executed", value: `done ${name}` });
    await expectDoneOnce(store, name);
  });

  test("for more than 10 s: a begin fails with an error, a settle is saved later", async () => {
    const { store, lock, unlock } = await openLockable(10);
    const warnings = captureWarnings("ONCEFLOW_NOT_SAVED");
    const name = "locked for long";
    lock();
    const error = await thrownBy(once(store, { key: key.of(name) }, () => effect(name)));
    expect(error).toBeInstanceOf(UnreachableError);
    expect(error.message).toContain("was locked by another writer");
    expect(effects.get(name)).toBeUndefined();
    unlock();
    const charged = once(store, { key: key.of(name), leaseMs: 600_000 }, () => {
      lock();
      return effect(name);
    });
    await until("the settle was refused", () => warnings.some(({ message }) => message.includes(name)));
    unlock();
    expect(await charged).toMatchObject({ status: "executed", value: `done ${name}` });
    await expectDoneOnce(store, name);
  });
});

describe("a SQLite file that cannot be used", () => {
  test("a file that is not a database: the error names it and says what to do", async () => {
    const path = join(folder(), "junk.db");
    writeFileSync(path, "this is a text, and it is long enough to have a header\n".repeat(50));
    const error = await thrownBy(open(`sqlite:${path}`));
    expect(error).toBeInstanceOf(ConfigurationError);
    expect(error).toMatchObject({ code: "STORE_NOT_USABLE", message: expect.stringContaining(`"${path}"`) });
    expect(error.message).toMatch(/not a database.*another path/);
  });

  test("a path below a file: the error names the path", async () => {
    const path = join(folder(), "file");
    writeFileSync(path, "");
    const error = await thrownBy(open(`sqlite:${path}/inside/store.db`));
    expect(error).toBeInstanceOf(UnreachableError);
    expect(error.message).toContain(`"${path}/inside/store.db"`);
  });

  test("a read-only file system", async (context) => {
    const { path, mountReadOnly } = smallDisk(context);
    await (await open(`sqlite:${path}`, { stallMsMax: 0 })).close();
    const seen = mountReadOnly();
    const error = await thrownBy(open(`sqlite:${seen}`));
    expect(error.constructor.name).toMatch(/ConfigurationError|UnreachableError/);
    expect(error.message).toContain(`"${seen}"`);
    expect(error.message).toMatch(/read-write|may this user write/);
  });

  test("a full disk at open", async (context) => {
    const { path, fill, empty } = smallDisk(context);
    fill();
    const error = await thrownBy(open(`sqlite:${path}`));
    expect(error).toBeInstanceOf(UnreachableError);
    expect(error.message).toContain(`"${path}"`);
    empty();
    await (await open(`sqlite:${path}`)).close();
  });

  test("a full disk under an open store: the outcome is saved when there is space again", async (context) => {
    const { path, fill, empty } = smallDisk(context);
    const store = await open(`sqlite:${path}`, { stallMsMax: 0 });
    onTestFinished(() => store.close());
    const big = "x".repeat(200_000);
    let calls = 0;
    const charged = once(store, { key: key.of("charge"), leaseMs: 60_000 }, () => {
      calls += 1;
      fill();
      return big;
    });
    const refused = await thrownBy(
      until("the disk is full", async () => (await inspect(store, { key: "charge" }))?.state === "completed", 300),
    );
    expect(refused).toBeDefined();
    empty();
    expect((await charged).value).toBe(big);
    expect(calls).toBe(1);
  });

  test("a full disk at a begin: the effect runs when there is space again, once, and its result is kept", async (context) => {
    const { path, fill, empty } = smallDisk(context);
    const store = await open(`sqlite:${path}`, { stallMsMax: 0 });
    onTestFinished(() => store.close());
    fill();
    const charged = once(store, { key: key.of("begun late"), leaseMs: 60_000 }, () => effect("begun late"));
    const refused = await thrownBy(store.commit({ ledger: beginOf({ key: "beside it" }) }));
    expect(refused.message).toMatch(/disk is full|disk I\/O error/);
    expect(effects.get("begun late")).toBeUndefined();
    empty();
    expect(await charged).toMatchObject({ status: "executed", value: "done begun late" });
    await expectDoneOnce(store, "begun late");
  });

  test("a worker that repeatedly finds the disk full warns once, and continues when there is space", async (context) => {
    const { path, fill, empty } = smallDisk(context);
    const store = await open(`sqlite:${path}`, { stallMsMax: 0 });
    onTestFinished(() => store.close());
    const warnings = captureWarnings("ONCEFLOW_NOT_SAVED");
    let charges = 0;
    const charge = step("charge on a full disk", async () => {
      charges += 1;
      fill();
      return "x".repeat(100_000);
    });
    const order = workflow("order on a full disk", async () => (await charge()).length);
    let commits = 0;
    const commit = (batch: Parameters<Store["commit"]>[0]) => {
      commits += 1;
      return store.commit(batch);
    };
    const counted = Object.create(store, { commit: { value: commit } }) as Store;
    await work(counted, { workflows: [order], leaseMs: 60_000, pollMs: 20 });
    await start(order, [], { id: "order", store: counted });
    await until("the worker has warned", () => warnings.length > 0);
    expect(warnings[0]?.message).toMatch(/full/);
    expect(warnings[0]?.message).toContain(path);
    const before = commits;
    await until("the write was tried again", () => commits >= before + 4);
    expect(warnings).toHaveLength(1);
    empty();
    expect(await getRun("order", { store }).returnValue).toBe(100_000);
    expect(charges).toBe(1);
  });
});

describe("a closed store", () => {
  const reads: Record<string, (store: Store) => Promise<unknown>> = {
    once: (store) => once(store, { key: key.of("k") }, () => 1),
    inspect: (store) => inspect(store, { key: "k" }),
    list: (store) => store.list({ limit: 1 }),
    purge: (store) => store.purge({ limit: 1 }),
    transact: (store) => store.transact(async () => 1),
    "a run": async (store) => await store.runs.read("r"),
    "a claim": async (store) => await store.runs.claim({ owner: "o", workflows: ["w"], leaseMs: 100, limit: 1 }),
    "a packet": async (store) => await store.packets.packet(1),
  };
  test.for(Object.keys(reads))("%s: the error says that the store is closed, and names the store", async (name) => {
    const path = join(folder(), "closed.db");
    const store = await open(`sqlite:${path}`, { stallMsMax: 0 });
    await store.close();
    const error = await thrownBy((reads[name] as (store: Store) => Promise<unknown>)(store));
    expect(error).toBeInstanceOf(UnreachableError);
    expect(error.message).toContain("is closed");
    expect(error.message).toContain(path);
  });
});
