import { SingleBar } from "cli-progress";
import { colour } from "./colour.js";
import type { Shop } from "./shop.js";

export interface Progress {
  paid(): void;
  stop(): void;
}

/** A bar in a terminal; elsewhere a line every two seconds. */
export function startProgress(orders: number, shop: Shop): Progress {
  const facts = () => ({ kills: String(shop.counts.kills).padStart(3), replays: String(shop.counts.replays).padStart(3) });
  const counts = `{value}/{total} orders paid · ${colour("red", "{kills} workers killed")} · {replays} replays`;
  const bar = new SingleBar({
    stream: process.stdout,
    format: process.stdout.isTTY ? `  ${colour("green", "{bar}")} ${counts} · {duration} s` : `  {duration} s: ${counts}`,
    barCompleteChar: "█",
    barIncompleteChar: "░",
    barsize: 20,
    hideCursor: true,
    autopadding: true,
    noTTYOutput: true,
    notTTYSchedule: 2000,
    // Main handles Ctrl-C and stops the bar.
    gracefulExit: false,
  });
  bar.start(orders, 0, facts());
  const refresh = setInterval(() => bar.update(facts()), 100);
  return {
    paid: () => bar.increment(1, facts()),
    stop: () => {
      clearInterval(refresh);
      bar.update(facts());
      bar.stop();
    },
  };
}
