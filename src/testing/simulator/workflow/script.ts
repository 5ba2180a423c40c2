import { encode } from "../../../core/values/codec.js";
import { start } from "../../../workflow/client/start.js";
import { currentExecution, getWorkflowMetadata } from "../../../workflow/define/context.js";
import { workflow } from "../../../workflow/define/define.js";
import { createHook, now, random, sleep, uuid } from "../../../workflow/define/primitives.js";
import type { Execution } from "../../../workflow/execute/execution.js";
import type { SimulatedCode } from "./fleet.js";
import { setLabels } from "./labels.js";
import type { Version } from "./plan.js";
import type { Program } from "./program.js";
import { type Steps, simulatedStream } from "./step-bodies.js";

/** The outcome of a request (a step, sleep, hook or child), as the workflow code saw it. */
export interface SeenOutcome {
  readonly id: string;
  readonly ok: boolean;
  /** The encoded value, or the error's message. */
  readonly result: string;
}

/** What the workflow code saw in one execution of a run, until the execution ended or its process died. */
export class Script {
  readonly execution: Execution;
  readonly incarnation: number;
  readonly outcomes: SeenOutcome[] = [];
  /** The ids of the requests whose outcome the code awaits. */
  readonly awaited = new Set<string>();
  /** The payloads that the code received from each hook, in order. */
  readonly payloads = new Map<string, string[]>();
  /** Stream chunks that the workflow code itself has written. */
  chunksWritten = 0;
  /** How often the code has changed attributes. */
  labelled = 0;
  readonly #counts = new Map<string, number>();
  readonly #children = new Set<string>();

  constructor(execution: Execution, incarnation: number) {
    this.execution = execution;
    this.incarnation = incarnation;
  }

  /** The id that the engine gives to the next request with this name. */
  next(name: string): string {
    const n = this.#counts.get(name) ?? 0;
    this.#counts.set(name, n + 1);
    return this.idOf(`${name}#${n}`);
  }

  /** A request that a retry has renewed has another id. */
  idOf(id: string): string {
    return this.execution.requests.idOf(id);
  }

  /** Whether this is the first request for the child in this execution. */
  isFirst(child: string): boolean {
    const known = this.#children.has(child);
    this.#children.add(child);
    return !known;
  }

  /** Records the outcome of a request when it settles. */
  record<T>(id: string, promise: PromiseLike<T>): Promise<T> {
    const first = !this.awaited.has(id);
    this.awaited.add(id);
    const recorded = Promise.resolve(promise).then(
      (value) => {
        if (first) this.outcomes.push({ id, ok: true, result: encode(value ?? null) });
        return value;
      },
      (error: unknown) => {
        if (first) this.outcomes.push({ id, ok: false, result: error instanceof Error ? error.message : String(error) });
        throw error;
      },
    );
    recorded.catch(() => {});
    return recorded;
  }

  recordPayload(hook: string, payload: unknown): void {
    const taken = this.payloads.get(hook) ?? [];
    this.payloads.set(hook, taken);
    taken.push(encode(payload));
  }
}

/** The engine uses one id for the end of a child and for the answer to its start; this gives the answer its own id. */
export function startOf(request: string): string {
  return `start of ${request}`;
}

export interface Play extends SimulatedCode {
  /** One script for each execution. */
  readonly scripts: Script[];
}

interface RunFacts {
  /** Whether the code of the run has made its first request. */
  readonly hasStarted: (run: string) => boolean;
  readonly versionOf: (run: string) => Version | undefined;
  /** How many runs with this id were deleted. */
  readonly incarnation: (run: string) => number;
  /** How often the run was retried. */
  readonly retries: (run: string) => number;
}

/** The workflow of a world, in all its versions: interprets the program that it gets as input. */
export function playOf(steps: Steps, { hasStarted, versionOf, incarnation, retries }: RunFacts): Play {
  const scripts: Script[] = [];
  const define = (diverges: (run: string) => boolean) =>
    workflow("simulated", async (program: Program): Promise<unknown> => {
      const execution = currentExecution() as Execution;
      if (diverges(execution.id)) return "strange";
      const script = new Script(execution, incarnation(execution.id));
      scripts.push(script);
      return await perform(program, script);
    });
  const incompatible = define(hasStarted);
  const versioned = (version: Version) => define((run) => hasStarted(run) && versionOf(run) !== version);
  const versions = { old: versioned("old"), new: versioned("new") };
  const play = define(() => false);

  async function perform(program: Program, script: Script): Promise<unknown> {
    switch (program.do) {
      case "step": {
        const given = { name: program.name, drawn: program.draws ? draw() : null };
        const id = program.kind === "named" ? script.idOf(`named:${program.name}`) : script.next(program.kind);
        return await script.record(id, steps[program.kind](given));
      }
      case "sleep":
        setLabels(script.labelled++);
        await script.record(script.next("sleep"), sleep(program.ms));
        return "slept";
      case "draw":
        setLabels(script.labelled++);
        return draw();
      case "say":
        await script.execution.streams.write(simulatedStream, { by: "run", attempt: 1, i: script.chunksWritten++ });
        return "said";
      case "hook":
        return await listen(program, script, () => script.record(script.next("plain"), steps.plain({ name: "served", drawn: null })));
      case "child": {
        const options = program.id === null ? {} : { id: program.id };
        const request = script.next("child simulated");
        const starting = start(play, [program.program], options);
        // Only a start with a given id waits for an answer.
        if (program.id !== null)
          void script.record(
            startOf(request),
            starting.then(({ mismatch }) => mismatch),
          );
        const run = await starting;
        const isFirst = script.isFirst(run.id);
        if (!program.awaited) return run.id;
        // The end of a child that was requested before is delivered under its first request, perhaps before this one.
        return await (isFirst ? script.record(request, run.returnValue) : run.returnValue);
      }
      case "sequence": {
        const results: unknown[] = [];
        for (const each of program.of) results.push(await perform(each, script));
        return results;
      }
      case "all":
        return await Promise.all(program.of.map((each) => perform(each, script)));
      case "race":
        return await Promise.race(program.of.map((each) => perform(each, script)));
      case "any":
        return await Promise.any(program.of.map((each) => perform(each, script)));
      case "settled":
        return (await Promise.allSettled(program.of.map((each) => perform(each, script)))).map(({ status }) => status);
      case "try":
        try {
          return await perform(program.program, script);
        } catch (error) {
          return { caught: String(error), instead: await perform(program.otherwise, script) };
        }
      case "throw":
        throw new Error("the code throws");
      case "bug":
        // Everything that other code can do without an answer is done first. Otherwise the corrected code could overtake it, and would not match the journal.
        for (let i = 0; i < readyMax; i++) await undefined;
        if (retries(script.execution.id) < program.until) throw new Error("the code has a bug");
        return "mended";
      case "undo":
        try {
          return await perform(program.program, script);
        } catch (error) {
          await perform(program.by, script);
          throw error;
        }
      case "finally":
        try {
          return await perform(program.program, script);
        } finally {
          await perform(program.by, script);
        }
      case "leave":
        void perform(program.program, script).catch(() => {});
        return "left";
    }
  }
  return { scripts, workflow: play, incompatible, versions };
}

/** More than the promises between two requests of a program. */
const readyMax = 200;

function draw(): unknown {
  const { workflowStartedAt } = getWorkflowMetadata();
  return { began: workflowStartedAt.getTime(), now: now().getTime(), random: random(), uuid: uuid() };
}

async function listen(
  { token, payloads, as }: Extract<Program, { do: "hook" }>,
  script: Script,
  serve: () => Promise<unknown>,
): Promise<unknown> {
  const id = script.next("hook");
  const hook = createHook({ token });
  const taken: unknown[] = [];
  const take = (payload: unknown) => {
    script.recordPayload(id, payload);
    taken.push(payload);
  };
  if (as === "asked") {
    const conflict = await hook.getConflict();
    if (conflict) return "conflict";
  }
  if (as === "iterated" || as === "served") {
    for await (const payload of hook) {
      take(payload);
      if (as === "served") await serve();
      if (taken.length === payloads) break;
    }
  } else for (let i = 0; i < payloads; i++) take(await hook);
  if (as === "asked" || as === "iterated") await hook.getConflict();
  if (as === "asked") hook.dispose();
  return taken;
}
