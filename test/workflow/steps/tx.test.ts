import { NotKnownError, type SqliteTx, type Store, type Tx } from "onceflow";
import { createHook, FatalError, getStepMetadata, getWorkflowMetadata, sleep, step, work, workflow } from "onceflow/workflow";
import { getRun, readAttempts, readJournal, resumeHook, start } from "onceflow/workflow/api";
import type pg from "pg";
import { describe, expect, test as plain } from "vitest";
import { gate } from "../../kit/gate.js";
import { letTimePass } from "../../kit/real-time.js";
import { durableStores, onStores, type Scene, shortMs } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { quick, story } from "../scene.js";

/** A table of the application, in the database of the store. */
class Business {
  readonly #store: Store;
  readonly #table: string;

  private constructor(store: Store, table: string) {
    this.#store = store;
    this.#table = table;
  }

  static async of(scene: Scene): Promise<Business> {
    const business = new Business(await scene.open(), scene.name("business").replace(" ", "_"));
    await business.#store.transact((tx) => query(tx, `CREATE TABLE ${business.#table} (row_text text NOT NULL)`));
    return business;
  }

  async add(tx: Tx, row: string): Promise<void> {
    await query(tx, `INSERT INTO ${this.#table} VALUES ('${row}')`);
  }

  /** The committed rows. */
  async rows(): Promise<string[]> {
    const rows = await this.#store.transact((tx) => query(tx, `SELECT row_text FROM ${this.#table} ORDER BY row_text`));
    return rows.map((row) => String(row["row_text"]));
  }
}

async function query(tx: Tx, sql: string): Promise<Record<string, unknown>[]> {
  if ("prepare" in tx) return (tx as SqliteTx).prepare(sql).all() as Record<string, unknown>[];
  return (await (tx as pg.PoolClient).query(sql)).rows;
}

/** Rejects when the signal aborts, or at once if it has aborted already. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason));
  });
}

onStores("step.tx", durableStores, (test, on) => {
  test("business rows and the result are written together", async ({ scene }) => {
    const business = await Business.of(scene);
    const book = step.tx("book", async (tx, what: string) => {
      await business.add(tx, `${what} ${getStepMetadata().attempt} ${getWorkflowMetadata().workflowRunId}`);
      return { booked: what };
    });
    const run = workflow(scene.name("run"), async () => await book("flight"));
    const { store } = await scene.work();
    const started = await start(run, [], { id: "r", store });
    expect(await started.returnValue).toEqual({ booked: "flight" });
    expect(await business.rows()).toEqual(["flight 1 r"]);
    expect(await story(store, "r")).toEqual(["step book#0", "done book#0", "end completed"]);
  });

  test("a throw rolls back and is retried", async ({ scene }) => {
    const business = await Business.of(scene);
    const book = step.tx(
      "book",
      async (tx) => {
        const { attempt, stepId } = getStepMetadata();
        await business.add(tx, `attempt ${attempt}`);
        if (attempt < 3) throw new Error("after the insert");
        return stepId;
      },
      quick,
    );
    const run = workflow(scene.name("run"), async () => await book());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    const stepId = await started.returnValue;
    expect(await business.rows()).toEqual(["attempt 3"]);
    const attempts = await readAttempts(started.id, stepId, { store });
    expect(attempts.map(({ verdict }) => verdict)).toEqual(["failed", "failed", "completed"]);
  });

  test("FatalError and exhausted retries reject, and nothing is written", async ({ scene }) => {
    const business = await Business.of(scene);
    const fatal = step.tx("fatal", async (tx) => {
      await business.add(tx, "fatal");
      throw new FatalError("no");
    });
    const worn = step.tx(
      "worn",
      async (tx) => {
        await business.add(tx, "worn");
        throw new Error("no");
      },
      { maxRetries: 1, ...quick },
    );
    const run = workflow(scene.name("run"), async () => {
      const results = await Promise.allSettled([fatal(), worn()]);
      return results.map((result) => result.status === "rejected" && FatalError.is(result.reason));
    });
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toEqual([true, true]);
    expect(await business.rows()).toEqual([]);
  });

  test("a result that cannot be journaled is rolled back with a clear error, and not retried", async ({ scene }) => {
    const business = await Business.of(scene);
    let calls = 0;
    const odd = step.tx("odd", async (tx) => {
      calls += 1;
      await business.add(tx, "odd");
      return { deep: { fn: () => 1 } };
    });
    const run = workflow(scene.name("run"), async () => await odd().catch((error: Error) => error.message));
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toMatch(/\.deep\.fn/);
    expect(calls).toBe(1);
    expect(await business.rows()).toEqual([]);
  });

  test("works in sequence, in parallel, and beside other steps, hooks and sleeps", async ({ scene }) => {
    const business = await Business.of(scene);
    const book = step.tx("book", async (tx, n: number) => {
      await business.add(tx, `row ${n}`);
      return n;
    });
    const other = step("other", async (n: number) => n);
    const run = workflow(scene.name("run"), async () => {
      const hook = createHook<number>({ token: "t" });
      const first = await book(1);
      const rest = await Promise.all([book(2), other(3), book(4), sleep(5).then(() => 5), book(6), hook, other(8)]);
      return [first, ...rest, await book(9)];
    });
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    await resumeHook("t", 7, { store });
    expect(await started.returnValue).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(await business.rows()).toEqual([1, 2, 4, 6, 9].map((n) => `row ${n}`));
  });

  test("a hook that is created while a transaction is open gets its conflict", async ({ scene }) => {
    const business = await Business.of(scene);
    const [opened, free] = [gate(), gate()];
    const book = step.tx("book", async (tx) => {
      opened.open();
      await free.opened;
      await business.add(tx, "row");
    });
    const wait = step("wait", async () => await opened.opened);
    const run = workflow(scene.name("run"), async () => {
      const booking = book();
      await wait();
      const hook = createHook({ token: "taken" });
      setImmediate(() => free.open());
      const conflict = await hook.getConflict();
      await booking;
      return conflict?.name ?? null;
    });
    const holder = workflow(scene.name("holder"), async () => await createHook({ token: "taken" }));
    const { store } = await scene.work();
    await start(holder, [], { store });
    expect(await (await start(run, [], { store })).returnValue).toBe("HookConflictError");
  });

  test("if the reply to the commit is lost, the journal has the outcome, and the body is not run again", async ({ scene }) => {
    const business = await Business.of(scene);
    const book = step.tx("book", async (tx) => {
      await business.add(tx, `attempt ${getStepMetadata().attempt}`);
      return "booked";
    });
    const run = workflow(scene.name("run"), async () => await book());
    const { store } = await scene.work({}, commitsBadly(await scene.open(), "done, and the reply lost"));
    const started = await start(run, [], { store });
    expect(await started.returnValue).toBe("booked");
    expect(await business.rows()).toEqual(["attempt 1"]);
  });

  test("a failed commit counts as a failed attempt and is retried", async ({ scene }) => {
    const business = await Business.of(scene);
    const book = step.tx(
      "book",
      async (tx) => {
        await business.add(tx, `attempt ${getStepMetadata().attempt}`);
        return "booked";
      },
      quick,
    );
    const run = workflow(scene.name("run"), async () => await book());
    const { store } = await scene.work({}, commitsBadly(await scene.open(), "not done"));
    expect(await (await start(run, [], { store })).returnValue).toBe("booked");
    expect(await business.rows()).toEqual(["attempt 2"]);
  });

  test("if the reply is lost and the commit arrives late, one of the two attempts counts, never both", async ({ scene }) => {
    const business = await Business.of(scene);
    const book = step.tx(
      "book",
      async (tx) => {
        await business.add(tx, `attempt ${getStepMetadata().attempt}`);
        return "booked";
      },
      quick,
    );
    const after = step("after", async () => {});
    const run = workflow(scene.name("run"), async () => {
      const result = await book();
      await after();
      return result;
    });
    const { store } = await scene.work({}, commitsBadly(await scene.open(), "done later, and the reply lost"));
    const started = await start(run, [], { id: "r", store });
    expect(await started.returnValue).toBe("booked");
    expect(await business.rows()).toHaveLength(1);
    const done = (await readJournal("r", { store })).filter((item) => item.type === "done" && item.id === "book#0");
    expect(done).toHaveLength(1);
    expect(await business.rows()).toEqual([`attempt ${done[0]?.attempt}`]);
  });

  // In SQLite no other connection can write while the transaction is open, so the run cannot be taken over during it.
  test.skipIf(on === "sqlite")(
    "the transaction of a late owner is rolled back, because the run has another owner by then",
    async ({ scene }) => {
      const business = await Business.of(scene);
      const [called, free] = [gate<AbortSignal>(), gate()];
      const book = step.tx("book", async (tx) => {
        const { attempt, signal } = getStepMetadata();
        if (attempt === 1) {
          called.open(signal);
          await free.opened;
        }
        await business.add(tx, `attempt ${attempt}`);
        return attempt;
      });
      const run = workflow(scene.name("run"), async () => await book());
      const own = await scene.open();
      const ended = gate<unknown>();
      let silent = false;
      const renew: Store["runs"]["renew"] = (query) => (silent ? new Promise(() => {}) : own.runs.renew(query));
      const transact: Store["transact"] = (run) => {
        const result = own.transact(run);
        void result.then(ended.open, ended.open);
        return result;
      };
      const runs = { value: Object.create(own.runs, { renew: { value: renew } }) as unknown };
      const late = Object.create(own, { runs, transact: { value: transact }, beforeClose: { value: () => () => {} } }) as Store;
      await work(late, { workflows: [run], leaseMs: shortMs, background: true });
      const started = await start(run, [], { store: late });
      await called.opened;
      // From here on the worker renews nothing, and its transaction is still open.
      silent = true;
      const { store } = await scene.work({ workflows: [run] });
      expect(await getRun(started.id, { store }).returnValue).toBe(2);
      free.open();
      expect(await ended.opened).toBeInstanceOf(Error);
      expect(await business.rows()).toEqual(["attempt 2"]);
    },
  );

  test("a cancel rolls back a transaction that does not end within its grace", async ({ scene }) => {
    const business = await Business.of(scene);
    const called = gate();
    const book = step.tx(
      "book",
      async (tx) => {
        const { signal } = getStepMetadata();
        await business.add(tx, "row");
        called.open();
        await aborted(signal);
      },
      { graceMs: 500 },
    );
    const run = workflow(scene.name("run"), async () => await book());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    await called.opened;
    await started.cancel();
    await expect(started.returnValue).rejects.toThrow("cancelled");
    expect(await business.rows()).toEqual([]);
  });

  test("a timeout aborts the signal of a transaction, too", async ({ scene }) => {
    const business = await Business.of(scene);
    const book = step.tx(
      "book",
      async (tx) => {
        const { attempt, signal } = getStepMetadata();
        await business.add(tx, `attempt ${attempt}`);
        if (attempt === 1) await aborted(signal);
        return attempt;
      },
      { timeoutMs: 30, ...quick },
    );
    const run = workflow(scene.name("run"), async () => await book());
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toBe(2);
    expect(await business.rows()).toEqual(["attempt 2"]);
  });

  test("releasing a run while a transaction is open and another step is about to begin loses and repeats nothing", async ({ scene }) => {
    const business = await Business.of(scene);
    const [opened, free] = [gate(), gate()];
    const calls: string[] = [];
    const book = step.tx("book", async (tx) => {
      await business.add(tx, `attempt ${getStepMetadata().attempt}`);
      opened.open();
      await free.opened;
      return "booked";
    });
    const other = step("other", async (name: string) => {
      await opened.opened;
      calls.push(name);
    });
    const run = workflow(scene.name("run"), async () => {
      const chain = (async () => {
        await other("first");
        await other("second");
      })();
      return (await Promise.all([book(), chain]))[0];
    });
    const { store, worker } = await scene.work();
    const started = await start(run, [], { store });
    await until("the first one is done", () => calls.length > 0);
    const stopped = worker.stop();
    free.open();
    await stopped;
    const next = await scene.work();
    expect(await getRun(started.id, { store: next.store }).returnValue).toBe("booked");
    expect(await business.rows()).toEqual(["attempt 1"]);
    expect(calls).toEqual(["first", "second"]);
  });
});

describe("step.tx where it cannot run", () => {
  plain("is refused outside of a workflow", () => {
    const book = step.tx("book", async () => 1);
    expect(() => book()).toThrow(/only be used in a workflow/);
  });
});

onStores("step.tx", ["memory"], (test) => {
  test("a store without transactions is refused at once, by name", async ({ scene }) => {
    const book = step.tx("book", async () => 1);
    const run = workflow(scene.name("run"), async () => await book());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    await expect(started.returnValue).rejects.toThrow(/\[memory\] this store has no transactions/);
    expect((await story(store, started.id)).filter((line) => line === "step book#0")).toHaveLength(1);
  });
});

/** Makes the commit of the first transaction fail in one of three ways. */
function commitsBadly(store: Store, how: "done, and the reply lost" | "not done" | "done later, and the reply lost"): Store {
  let left = 1;
  const transact = async <T>(run: (tx: Tx) => Promise<T>): Promise<T> => {
    if (left-- <= 0) return await store.transact(run);
    if (how === "done, and the reply lost") {
      await store.transact(run);
      throw new NotKnownError("the reply was lost");
    }
    const written = gate();
    const committing = store.transact(async (tx) => {
      const result = await run(tx);
      written.open();
      if (how === "not done") throw new NotKnownError("the connection broke before the commit");
      // The COMMIT is still in flight when its sender has given up.
      await letTimePass(300, "the retry comes before the commit has arrived, and waits for it inside the database");
      return result;
    });
    if (how === "not done") return await committing;
    await written.opened;
    void committing.catch(() => {});
    throw new NotKnownError("the connection broke during the commit");
  };
  return Object.create(store, { transact: { value: transact } }) as Store;
}
