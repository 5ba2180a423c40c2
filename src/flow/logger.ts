import { AsyncLocalStorage } from "node:async_hooks";
import { stripVTControlCharacters } from "node:util";
import type { FlowEvent, FlowPlugin } from "./event.js";

/** Options of {@link FlowLogger} and {@link createConsoleLoggerPlugin}. */
export interface ConsoleLoggerOptions {
  /** Printed in brackets at the start of every line. */
  readonly prefix?: string;
  /** Prefixes lines that a step writes to the console with the step's name. Default false. */
  readonly intercept?: boolean;
  /** Where lines are written. Default: `console.log`, looked up for every line, so that tools that replace it see the line. */
  readonly stream?: { write(text: string): unknown; readonly isTTY?: boolean };
}

/** ANSI colour codes. */
const colors = { red: 31, green: 32, yellow: 33, cyan: 36 } as const;

/** Writes one line per event of a flow: coloured on a terminal, plain if piped or if NO_COLOR is set. */
export class FlowLogger {
  readonly #prefix: string;
  readonly #stream: ConsoleLoggerOptions["stream"];
  readonly #colors: boolean;

  constructor({ prefix, stream }: ConsoleLoggerOptions = {}) {
    this.#prefix = prefix === undefined ? "" : `[${prefix}] `;
    this.#stream = stream;
    this.#colors = (stream ?? process.stdout).isTTY === true && !process.env["NO_COLOR"];
  }

  /** Writes the line for this event. `stepStart`, `stepRetry` and successful compensations print nothing. */
  readonly log = (event: FlowEvent): void => {
    switch (event.type) {
      case "flowStart":
        return this.#write("cyan", "RUNNING", event.flow);
      case "stepComplete": {
        const retries = event.attempts - 1;
        return this.#write("green", "✔", retries > 0 ? `${event.step} (${retries} ${retries === 1 ? "retry" : "retries"})` : event.step);
      }
      case "stepFail":
        return this.#write("red", "✘", `${event.step} ${messageOf(event.error)}`);
      case "compensate":
        return this.#write("yellow", "↺", `Compensating: ${event.step}`);
      case "compensateComplete":
        return "error" in event ? this.#write("red", "✘", `Compensating ${event.step} failed: ${messageOf(event.error)}`) : undefined;
      case "flowComplete":
        return this.#write("green", "SUCCESS", event.flow);
      case "flowFail":
        return this.#write("red", event.result.status === "cancelled" ? "CANCELLED" : "FAILURE", event.flow);
    }
  };

  #write(color: keyof typeof colors, mark: string, text: string): void {
    const line = `${this.#prefix}${this.#colors ? `\u001b[${colors[color]}m${mark}\u001b[39m` : mark} ${text}`;
    if (this.#stream === undefined) console.log(line);
    else this.#stream.write(`${line}\n`);
  }
}

/** The message on one line, without terminal control sequences. */
function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return stripVTControlCharacters(text).replace(/\s+/g, " ").slice(0, 500);
}

/**
 * Plugin that logs the events of every flow it is passed to.
 *
 * @example
 * const payment = create("payment", { plugins: [createConsoleLoggerPlugin({ prefix: "shop" })] });
 */
export function createConsoleLoggerPlugin(options: ConsoleLoggerOptions = {}): FlowPlugin {
  const logger = new FlowLogger(options);
  const plugin = { name: "console-logger", onEvent: logger.log };
  if (!options.intercept) return plugin;
  const tag = options.prefix === undefined ? "" : `[${options.prefix}] `;
  return { ...plugin, around: (step, body) => withTaggedConsole(`${tag}[${step}] →`, body) };
}

const tags = new AsyncLocalStorage<string>();
const methods = ["log", "info", "warn", "error", "debug"] as const;
let patched = false;

/** The console is patched once per process and stays patched; outside of a step it behaves as before. */
function withTaggedConsole<T>(tag: string, body: () => T): T {
  if (!patched) {
    patched = true;
    for (const method of methods) {
      const original = console[method].bind(console);
      console[method] = (...args: unknown[]) => {
        const current = tags.getStore();
        if (current === undefined) original(...args);
        else original(current, ...args);
      };
    }
  }
  return tags.run(tag, body);
}
