import { open } from "onceflow";
import { create, type FlowContext, type FlowEvent } from "onceflow/flow";

/** Runs a flow under a key, or resumes it, and dies by SIGKILL at the given point. It prints the result at the end. */
export interface FlowDoom {
  readonly url: string;
  readonly providerUrl: string;
  /** "resume" and "recover" have no input. */
  readonly act: "run" | "resume" | "recover";
  /** Whether the last step fails, so that everything is compensated. */
  readonly refused: boolean;
  /** "before call a", "after call a": in the body of step a, or of its undo; "stepComplete a" and similar: at that event. */
  readonly dieAt?: string;
}

const { url, providerUrl, act, refused, dieAt } = JSON.parse(process.argv[2] ?? "") as FlowDoom;

function at(point: string): void {
  if (point === dieAt) process.kill(process.pid, "SIGKILL");
}

async function call(ctx: FlowContext, what: string): Promise<void> {
  at(`before call ${what}`);
  await fetch(providerUrl, { method: "POST", headers: { "idempotency-key": what, "x-step-key": ctx.stepKey ?? "" } });
  at(`after call ${what}`);
}

const undo = (step: string) => ({ compensate: (ctx: FlowContext) => call(ctx, `undo ${step}`) });
/** Step c waits for b, so that the order is fixed. */
let bRuns = false;
const onEvent = (event: FlowEvent) => {
  if (event.type === "stepComplete" && event.step === "b") bRuns = false;
  at("step" in event ? `${event.type} ${event.step}` : event.type);
};

const store = await open(url, { stallMsMax: 0 });
const flow = create<{ order: string }>("killed", { idempotency: store, plugins: [{ name: "death", onEvent }] })
  .step(
    "a",
    async (ctx) => {
      await call(ctx, "a");
      ctx.set("order", { id: ctx.input.order, at: new Date(0) });
    },
    undo("a"),
  )
  .parallel("both", [
    {
      name: "b",
      fn: (ctx) => {
        bRuns = true;
        return call(ctx, "b");
      },
      options: undo("b"),
    },
    {
      name: "c",
      fn: async (ctx) => {
        while (bRuns) await new Promise((resolve) => setTimeout(resolve, 1));
        await call(ctx, "c");
      },
      options: undo("c"),
    },
  ])
  .step(
    "d",
    async (ctx) => {
      const { id, at } = ctx.get<{ id: string; at: Date }>("order") ?? {};
      if (id !== "o-1" || at?.getTime() !== 0) throw new Error(`the context was lost: ${id}`);
      await call(ctx, "d");
      if (refused) throw new Error("refused");
    },
    undo("d"),
  );

const options = { leaseMs: 300, onRunning: "wait" } as const;
const acts = {
  run: () => flow.run({ order: "o-1" }, { key: "k", ...options }),
  resume: () => flow.resume("k", options),
  recover: async () => {
    // A lease has to expire before there is something to recover.
    for (;;) {
      const [result] = await flow.recover(options);
      if (result) return result;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  },
};
const result = await acts[act]();
console.log(JSON.stringify(result));
await store.close();
