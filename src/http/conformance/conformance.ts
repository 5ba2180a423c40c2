import { InvalidInputError } from "../../core/errors/errors.js";
import { printable } from "../../core/errors/printable.js";
import { cases } from "./cases.js";
import { type ConformanceOptions, Failed, Target } from "./target.js";

export type { ConformanceOptions };

/** The result of one case. */
export interface ConformanceCase {
  readonly name: string;
  readonly about: string;
  readonly verdict: "passed" | "failed" | "skipped";
  /** Why it failed, or which option it requires. */
  readonly why?: string;
}

/** The result of `conformance`. */
export interface ConformanceReport {
  readonly url: string;
  readonly passed: boolean;
  readonly cases: readonly ConformanceCase[];
}

/**
 * Tests how a server, written in any language, handles idempotency keys, and prints a table. `url` is a POST route whose response
 * is different each time it executes (a new id, for example). Throws InvalidInputError for wrong arguments; a server that does
 * not conform is reported, not thrown.
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
      done.push({ name, about, verdict: "skipped", why: `requires the option ${needs.join(" or ")}${skipped[name] ?? ""}` });
      continue;
    }
    try {
      await run(target);
      done.push({ name, about, verdict: "passed" });
    } catch (error) {
      const why = error instanceof Failed ? error.message : `no usable response: ${reasonOf(error)}`;
      // The reason quotes the server's response, which may contain control characters.
      done.push({ name, about, verdict: "failed", why: printable(why) });
    }
  }
  const report = { url, passed: done.every(({ verdict }) => verdict !== "failed"), cases: done };
  (options.print ?? ((text) => console.log(text)))(tableOf(report));
  return report;
}

/** What a skipped case would have detected. */
const skipped: Readonly<Record<string, string>> = {
  effects: "; without it, a server that executes twice and responds identically is not detected",
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
