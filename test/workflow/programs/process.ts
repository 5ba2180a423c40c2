import { open, type SqliteTx, type Tx } from "onceflow";
import { createHook, getStepMetadata, sleep, step, type WorkerOptions, work, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { block } from "../../programs/block.js";
import { standInReady } from "../../programs/stand-in-ready.js";
import { watchStatements } from "../../programs/watch-statements.js";

/** A process of its own that starts runs, works on them, or dies over them: whatever it is told by its parent. */
export interface Part {
  readonly url: string;
  /** How it works; absent: it only starts runs. */
  readonly worker?: Omit<WorkerOptions, "workflows">;
  readonly providerUrl?: string;
  /** Kills itself around the commit of the first `step.tx`. */
  readonly dies?: "before commit" | "after commit";
}

export type Told =
  | {
      readonly tell: "start";
      readonly times: number;
      readonly workflow: keyof typeof workflows;
      readonly id: string;
      readonly args: unknown[];
    }
  /** The same, and dies by SIGKILL as soon as it has returned. */
  | { readonly tell: "startAndDie"; readonly workflow: keyof typeof workflows; readonly id: string; readonly args: unknown[] }
  /** Ends the step that is held. */
  | { readonly tell: "free" }
  /** Stops itself, until SIGCONT: between two turns of its event loop, where it holds no lock of a file. */
  | { readonly tell: "stall" }
  | { readonly tell: "measure"; readonly ms: number }
  | { readonly tell: "stop" };

export type Said =
  | { readonly say: "ready" }
  | { readonly say: "started"; readonly ids: readonly string[] }
  | { readonly say: "called"; readonly stepId: string; readonly attempt: number }
  | { readonly say: "aborted"; readonly reason: string }
  | { readonly say: "ended" }
  | { readonly say: "cpu"; readonly ms: number }
  | { readonly say: "stopped" };

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

/** Says that it was called, and waits until it is freed; the second attempt does not wait. */
const hold = step("hold", async () => {
  const { stepId, attempt, signal } = getStepMetadata();
  signal.addEventListener("abort", () => say({ say: "aborted", reason: String(signal.reason) }));
  say({ say: "called", stepId, attempt });
  if (attempt === 1) await freed;
  say({ say: "ended" });
  return `attempt ${attempt}`;
});

/** Gives the event loop no turn for so long. */
const compute = step("compute", async (ms: number) => {
  const { stepId, attempt } = getStepMetadata();
  await standInReady(store);
  say({ say: "called", stepId, attempt });
  // What it said leaves with a turn of the event loop.
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
  booked: workflow("process booked", async (table: string) => await book(table)),
  waiting: workflow("process waiting", async (token: string) => await createHook<string>({ token })),
  either: workflow("process either", async (token: string, ms: number) => {
    return await Promise.race([createHook<string>({ token }), sleep(ms).then(() => "too late")]);
  }),
};

// Also what keeps it alive until its parent ends.
process.on("disconnect", () => process.exit());
if (part.dies) dieAtCommit(part.dies);
const store = await open(part.url);
const worker = part.worker && (await work(store, { ...part.worker, workflows: Object.values(workflows) as never }));
process.on("message", (told: Told) => void obey(told));
say({ say: "ready" });

async function obey(told: Told): Promise<void> {
  const run = (told: { workflow: keyof typeof workflows; id: string; args: unknown[] }) =>
    start(workflows[told.workflow] as never, told.args as never, { id: told.id, store });
  switch (told.tell) {
    case "start": {
      const runs = await Promise.all(Array.from({ length: told.times }, () => run(told)));
      return say({ say: "started", ids: runs.map(({ id }) => id) });
    }
    case "startAndDie":
      await run(told);
      return die();
    case "free":
      return free();
    case "stall":
      return void process.kill(process.pid, "SIGSTOP");
    case "measure": {
      const before = process.cpuUsage();
      await new Promise((resolve) => setTimeout(resolve, told.ms));
      const { user, system } = process.cpuUsage(before);
      return say({ say: "cpu", ms: (user + system) / 1000 });
    }
    case "stop":
      await worker?.stop();
      return say({ say: "stopped" });
  }
}

function say(said: Said): void {
  process.send?.(said);
}

function die(): void {
  process.kill(process.pid, "SIGKILL");
}

/** The body arms it as its last act: the next COMMIT is its own. */
function dieAtCommit(when: "before commit" | "after commit"): void {
  watchStatements({
    before(sql) {
      if (armed && when === "before commit" && sql === "COMMIT") die();
    },
    after(sql) {
      if (armed && when === "after commit" && sql === "COMMIT") die();
    },
  });
}
