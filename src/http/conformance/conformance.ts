import { InvalidInputError } from "../../core/errors/errors.js";
import { printable } from "../../core/errors/printable.js";
import { cases } from "./cases.js";
import { type ConformanceOptions, Failed, Target } from "./target.js";

export type { ConformanceOptions };

export interface ConformanceCase {
  readonly name: string;
  readonly about: string;
  readonly verdict: "passed" | "failed" | "skipped";
  /** What was seen, or which option would let it run. */
  readonly why?: string;
}

export interface ConformanceReport {
  readonly url: string;
  readonly passed: boolean;
  readonly cases: readonly ConformanceCase[];
}

/**
 * Asks a server, in whatever language it is written, for everything that idempotency keys promise, and prints a table. The
 * URL takes a POST, and answers with something new at every execution: a new id.
 *
 * @example
 * const { passed } = await conformance("http://localhost:3000/orders", { headers: { authorization } });
 */
export async function conformance(url: string, options: ConformanceOptions = {}): Promise<ConformanceReport> {
  if (!URL.canParse(url)) throw new InvalidInputError("url", `"${url}" is not a URL`);
  const target = new Target(url, options);
  const done: ConformanceCase[] = [];
  for (const { name, about, needs, run } of cases) {
    if (needs?.every((option) => options[option] === undefined)) {
      done.push({ name, about, verdict: "skipped", why: `needs the option ${needs.join(" or ")}${skipped[name] ?? ""}` });
      continue;
    }
    try {
      await run(target);
      done.push({ name, about, verdict: "passed" });
    } catch (error) {
      const why = error instanceof Failed ? error.message : `no usable answer: ${reasonOf(error)}`;
      // It quotes the server.
      done.push({ name, about, verdict: "failed", why: printable(why) });
    }
  }
  const report = { url, passed: done.every(({ verdict }) => verdict !== "failed"), cases: done };
  (options.print ?? ((text) => console.log(text)))(tableOf(report));
  return report;
}

/** What a skipped case would have found, where that is easily overlooked. */
const skipped: Readonly<Record<string, string>> = {
  effects: "; a server that executes twice and answers alike is not found without it",
};

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}

function tableOf({ url, passed, cases }: ConformanceReport): string {
  const width = Math.max(...cases.map(({ name }) => name.length));
  const rows = cases.map(({ name, about, verdict, why }) => {
    const line = `  ${verdict.padEnd(7)}  ${name.padEnd(width)}  ${about}`;
    return why === undefined ? line : `${line}\n${" ".repeat(width + 13)}→ ${why}`;
  });
  const count = (verdict: string) => cases.filter((one) => one.verdict === verdict).length;
  const sum = `${count("passed")} passed, ${count("failed")} failed, ${count("skipped")} skipped`;
  return [`Idempotency keys at ${printable(url)}`, ...rows, `${passed ? "conforms" : "does not conform"}: ${sum}`].join("\n");
}
