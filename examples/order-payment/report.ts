import Table from "cli-table3";
import { colour } from "./colour.js";
import type { Shop } from "./shop.js";
import type { Tally } from "./tally.js";

const problemsShownMax = 10;

/** The numbers, their meaning, and the history of the order with the most attempts. */
export function report(result: Tally, { requests, kills, replays }: Shop["counts"], errors: readonly string[]): string {
  const strong = (text: string | number) => colour("bold", String(text));
  const shop = table([
    ["orders", result.orders, "each must be paid once"],
    ["requests", requests, "first requests, retries, impatient second clicks"],
    ["kills", kills, "workers ended by SIGKILL at a random moment"],
    ["attempts", result.attempts, "executions that the ledger started"],
    ["attempts died", result.attemptsDied, "taken over when the lease of their worker expired"],
    ["replays", replays, "requests answered with the stored outcome"],
    ["unknown", result.unknown, "attempts whose outcome is unknown"],
  ]);
  const provider = table([
    ["raw calls", result.rawCalls, "what it would have charged without keys"],
    ["keys called again", result.keysCalledAgain, "their worker died after it had sent the call"],
    ["deduplicated", result.rawCalls - result.charges, "calls answered with the first call's receipt"],
    [strong("charges"), strong(result.charges), strong("money taken")],
  ]);
  return [
    strong("The shop and its ledger"),
    shop,
    strong("The payment process, with its own counts"),
    provider,
    ...story(result),
    ...retriedErrors(errors),
    "",
    ...verdict(result, kills),
  ].join("\n");
}

function table(rows: (string | number)[][]): string {
  // The same width, so that both tables align in a terminal of 80 columns.
  const shape = { colWidths: [19, 7, 50], colAligns: ["left" as const, "right" as const, "left" as const] };
  const drawn = new Table({ ...shape, style: { head: [], border: [], compact: true } });
  drawn.push(...rows);
  return drawn.toString();
}

function story({ unluckiest }: Tally): string[] {
  if (unluckiest === undefined || unluckiest.record.attempt === 1) return [];
  const { order, record, calls, chargeIds } = unluckiest;
  const lines = record.attempts.map(({ attempt, verdict }) => {
    const called = calls.includes(attempt) ? `its call reached the provider${attempt === calls[0] ? "" : " again"}` : "it made no call";
    return `  attempt ${attempt}: ${called}; ${verdict === "lapsed" ? "its worker died" : `${verdict}, receipt ${chargeIds.join(", ")}`}`;
  });
  return ["", `The order with the most attempts, ${order.id}:`, ...lines];
}

/** A worker on an overloaded machine can lose its lease and report it. That is not an error, but it is shown. */
function retriedErrors(errors: readonly string[]): string[] {
  return [...new Set(errors)].map((message) => `Error, after which the customer retried: ${message}`);
}

function verdict({ orders, charges, rawCalls, problems }: Tally, kills: number): string[] {
  if (problems.length > 0) {
    const more = problems.length > problemsShownMax ? [`and ${problems.length - problemsShownMax} more`] : [];
    const lines = [...problems.slice(0, problemsShownMax), ...more].map((problem) => `  ${problem}`);
    return [colour("red", ["FAILED:", ...lines].join("\n"))];
  }
  return [
    colour("green", `OK: charges = orders. ${kills} kills, and each of the ${orders} orders was charged effectively once.`),
    `The provider recognised ${rawCalls - charges} repeated calls, because every attempt of an order has the same key.`,
    ...furtherReading,
  ];
}

const furtherReading = [
  "",
  "Next steps:",
  "  examples/order-payment/shop-worker.ts   the dozen lines that do it",
  "  README.md                               how to use it in your own code",
  "  docs/                                   guides, and what exactly is guaranteed",
  "  ORDERS=1000 npm run demo                a longer demonstration",
];
