import { encode } from "../../../core/values/codec.js";
import { start } from "../../../workflow/client/start.js";
import { currentExecution, getWorkflowMetadata } from "../../../workflow/define/context.js";
import { workflow } from "../../../workflow/define/define.js";
import { createHook, now, random, sleep, uuid } from "../../../workflow/define/primitives.js";
import type { Execution } from "../../../workflow/execute/execution.js";
import type { SimulatedCode } from "./fleet.js";
import type { Version } from "./plan.js";
import type { Program } from "./program.js";
import { type Steps, simulatedStream } from "./step-bodies.js";

/** What the code was told: how something that it asked for ended. */
export interface Told {
  readonly id: string;
  readonly ok: boolean;
  /** The encoded value, or the error's message. */
  readonly what: string;
}

/** One execution of a run's code, from its beginning to its end or to the death of its process, as the code saw it. */
export class Script {
  readonly execution: Execution;
  readonly told: Told[] = [];
  /** What the code would hear of. */
  readonly listens = new Set<string>();
  /** The payloads that were taken from each hook, in order. */
  readonly payloads = new Map<string, string[]>();
  /** Chunks that the code itself has written. */
  said = 0;
  readonly #counts = new Map<string, number>();
  readonly #children = new Set<string>();

  constructor(execution: Execution) {
    this.execution = execution;
  }

  /** The engine's name of the next thing of this kind. */
  next(name: string): string {
    const n = this.#counts.get(name) ?? 0;
    this.#counts.set(name, n + 1);
    return `${name}#${n}`;
  }

  isFirst(child: string): boolean {
    const known = this.#children.has(child);
    this.#children.add(child);
    return !known;
  }

  hear<T>(id: string, promise: PromiseLike<T>): Promise<T> {
    const first = !this.listens.has(id);
    this.listens.add(id);
    const heard = Promise.resolve(promise).then(
      (value) => {
        if (first) this.told.push({ id, ok: true, what: encode(value ?? null) });
        return value;
      },
      (error: unknown) => {
        if (first) this.told.push({ id, ok: false, what: error instanceof Error ? error.message : String(error) });
        throw error;
      },
    );
    heard.catch(() => {});
    return heard;
  }

  took(hook: string, payload: unknown): void {
    const taken = this.payloads.get(hook) ?? [];
    this.payloads.set(hook, taken);
    taken.push(encode(payload));
  }
}

/** The engine has one name for a child and for the answer to its start. */
export function startOf(request: string): string {
  return `start of ${request}`;
}

export interface Play extends SimulatedCode {
  /** Every execution that there was. */
  readonly scripts: Script[];
}

interface Begun {
  readonly hasBegun: (run: string) => boolean;
  readonly versionOf: (run: string) => Version | undefined;
}

/** The one workflow of a world: executes the program that it is given. */
export function playOf(steps: Steps, { hasBegun, versionOf }: Begun): Play {
  const scripts: Script[] = [];
  const define = (diverges: (run: string) => boolean) =>
    workflow("simulated", async (program: Program): Promise<unknown> => {
      const execution = currentExecution() as Execution;
      if (diverges(execution.id)) return "strange";
      const script = new Script(execution);
      scripts.push(script);
      return await perform(program, script);
    });
  const strange = define(hasBegun);
  const unlike = (version: Version) => define((run) => hasBegun(run) && versionOf(run) !== version);
  const versions = { old: unlike("old"), new: unlike("new") };
  const play = define(() => false);

  async function perform(program: Program, script: Script): Promise<unknown> {
    switch (program.do) {
      case "step": {
        const given = { name: program.name, drawn: program.draws ? draw() : null };
        const id = program.kind === "named" ? `named:${program.name}` : script.next(program.kind);
        return await script.hear(id, steps[program.kind](given));
      }
      case "sleep":
        await script.hear(script.next("sleep"), sleep(program.ms));
        return "slept";
      case "draw":
        return draw();
      case "say":
        await script.execution.streams.write(simulatedStream, { by: "run", attempt: 1, i: script.said++ });
        return "said";
      case "hook":
        return await listen(program, script, () => script.hear(script.next("plain"), steps.plain({ name: "served", drawn: null })));
      case "child": {
        const options = program.id === null ? {} : { id: program.id };
        const request = script.next("child simulated");
        const starting = start(play, [program.program], options);
        // Only a start by an id waits for an answer.
        if (program.id !== null)
          void script.hear(
            startOf(request),
            starting.then(({ mismatch }) => mismatch),
          );
        const run = await starting;
        const isFirst = script.isFirst(run.id);
        if (!program.awaited) return run.id;
        // A run that was asked for before is told of under the first request, and perhaps before this one.
        return await (isFirst ? script.hear(request, run.returnValue) : run.returnValue);
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
      case "leave":
        void perform(program.program, script).catch(() => {});
        return "left";
    }
  }
  return { scripts, workflow: play, strange, versions };
}

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
    script.took(id, payload);
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
