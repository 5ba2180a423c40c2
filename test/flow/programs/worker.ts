import { open } from "onceflow";
import { create, type FlowContext, type FlowEvent } from "onceflow/flow";

/** Runs a flow under a key, or resumes it, and dies at the point it was told, by SIGKILL. Its last word is the result. */
export interface FlowDoom {
  readonly url: string;
  readonly providerUrl: string;
  /** "resume" and "recover" know no input. */
  readonly act: "run" | "resume" | "recover";
  /** Whether the last step is refused, so that everything is undone. */
  readonly refused: boolean;
  /** "before call a", "after call a" in the body of step a, or undo; "stepComplete a" and the like: when that is told. */
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
/** Step c waits for b, so that there is an order to die in. */
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
    // A lease has to be over before there is something to recover.
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
