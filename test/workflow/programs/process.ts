import { open, type SqliteTx, type Tx } from "onceflow";
import { createHook, FatalError, getStepMetadata, sleep, step, type WorkerOptions, work, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { block } from "../../programs/block.js";
import { heartbeatThreadReady } from "../../programs/heartbeat-thread-ready.js";
import { watchStatements } from "../../programs/watch-statements.js";

/** A separate process that starts runs, works on them or dies while it does, on the commands of its parent. */
export interface Part {
  readonly url: string;
  /** Options of its worker; without a worker the process only starts runs. */
  readonly worker?: Omit<WorkerOptions, "workflows">;
  readonly providerUrl?: string;
  /** Kills itself around the commit of the first `step.tx`. */
  readonly dies?: "before commit" | "after commit";
  /** Its step `check` fails for good. */
  readonly fails?: boolean;
}

export type Command =
  | {
      readonly kind: "start";
      readonly times: number;
      readonly workflow: keyof typeof workflows;
      readonly id: string;
      readonly args: unknown[];
    }
  /** The same, and the process dies by SIGKILL as soon as start has returned. */
  | { readonly kind: "startAndDie"; readonly workflow: keyof typeof workflows; readonly id: string; readonly args: unknown[] }
  /** Lets the held step end. */
  | { readonly kind: "free" }
  /** Stops the process until SIGCONT: between two turns of its event loop, where it holds no file lock. */
  | { readonly kind: "stall" }
  | { readonly kind: "measure"; readonly ms: number }
  | { readonly kind: "stop" };

export type Report =
  | { readonly kind: "ready" }
  | { readonly kind: "started"; readonly ids: readonly string[] }
  | { readonly kind: "called"; readonly stepId: string; readonly attempt: number }
  | { readonly kind: "aborted"; readonly reason: string }
  | { readonly kind: "ended" }
  | { readonly kind: "cpu"; readonly ms: number }
  | { readonly kind: "stopped" };

const part = JSON.parse(process.argv[2] ?? "{}") as Part;
let free = () => {};
const freed = new Promise<void>((resolve) => {
  free = resolve;
});
let armed = false;

const call = step(
  "call",
  async () => {
    const { stepId, attempt } = getStepMetadata();
    const headers = { "idempotency-key": stepId, "x-attempt": String(attempt) };
    const response = await fetch(part.providerUrl ?? "", { method: "POST", headers });
    return ((await response.json()) as { id: string }).id;
  },
  { effect: "atMostOnce" },
);

/** Reports the call and waits for the command "free"; the second attempt does not wait. */
const hold = step("hold", async () => {
  const { stepId, attempt, signal } = getStepMetadata();
  signal.addEventListener("abort", () => report({ kind: "aborted", reason: String(signal.reason) }));
  report({ kind: "called", stepId, attempt });
  if (attempt === 1) await freed;
  report({ kind: "ended" });
  return `attempt ${attempt}`;
});

const check = step("check", async () => {
  if (part.fails) throw new FatalError("out of stock");
});

/** Blocks the event loop for `ms`. */
const compute = step("compute", async (ms: number) => {
  const { stepId, attempt } = getStepMetadata();
  await heartbeatThreadReady(store);
  report({ kind: "called", stepId, attempt });
  // The message leaves in the next turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve));
  block(ms);
  return attempt;
});

const book = step.tx("book", async (tx: Tx, table: string) => {
  const { attempt } = getStepMetadata();
  const sql = `INSERT INTO ${table} VALUES ('attempt ${attempt}')`;
  if ("prepare" in tx) (tx as SqliteTx).prepare(sql).run();
  else await (tx as { query(sql: string): Promise<unknown> }).query(sql);
  armed = true;
  return attempt;
});

const workflows = {
  charge: workflow("process charge", async () => await call()),
  held: workflow("process held", async () => await hold()),
  computed: workflow("process computed", async (ms: number) => await compute(ms)),
  shipped: workflow("process shipped", async () => {
    await hold();
    await check();
    return await call();
  }),
  booked: workflow("process booked", async (table: string) => await book(table)),
  waiting: workflow("process waiting", async (token: string) => await createHook<string>({ token })),
  either: workflow("process either", async (token: string, ms: number) => {
    return await Promise.race([createHook<string>({ token }), sleep(ms).then(() => "too late")]);
  }),
};

// This listener also keeps the process alive until its parent ends.
process.on("disconnect", () => process.exit());
if (part.dies) await dieAtCommit(part.url, part.dies);
const store = await open(part.url);
const worker = part.worker && (await work(store, { ...part.worker, workflows: Object.values(workflows) as never }));
process.on("message", (command: Command) => void execute(command));
report({ kind: "ready" });

async function execute(command: Command): Promise<void> {
  const run = (command: { workflow: keyof typeof workflows; id: string; args: unknown[] }) =>
    start(workflows[command.workflow] as never, command.args as never, { id: command.id, store });
  switch (command.kind) {
    case "start": {
      const runs = await Promise.all(Array.from({ length: command.times }, () => run(command)));
      return report({ kind: "started", ids: runs.map(({ id }) => id) });
    }
    case "startAndDie":
      await run(command);
      return die();
    case "free":
      return free();
    case "stall":
      return void process.kill(process.pid, "SIGSTOP");
    case "measure": {
      const before = process.cpuUsage();
      await new Promise((resolve) => setTimeout(resolve, command.ms));
      const { user, system } = process.cpuUsage(before);
      return report({ kind: "cpu", ms: (user + system) / 1000 });
    }
    case "stop":
      await worker?.stop();
      return report({ kind: "stopped" });
  }
}

function report(message: Report): void {
  process.send?.(message);
}

function die(): void {
  process.kill(process.pid, "SIGKILL");
}

/** The body of `book` arms this as its last act, so that the next COMMIT is the commit of its transaction. */
async function dieAtCommit(url: string, when: "before commit" | "after commit"): Promise<void> {
  await watchStatements(url, {
    before(sql) {
      if (armed && when === "before commit" && sql === "COMMIT") die();
    },
    after(sql) {
      if (armed && when === "after commit" && sql === "COMMIT") die();
    },
  });
}
