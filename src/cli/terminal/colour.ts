import { styleText } from "node:util";

/** Whether to colour what is written there: on a terminal, unless NO_COLOR is set; FORCE_COLOR=1 and 0 win over both. */
export function hasColours(stream: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv = process.env): boolean {
  const { FORCE_COLOR: forced, NO_COLOR: none, TERM: terminal } = env;
  if (forced !== undefined && forced !== "") return forced !== "0" && forced !== "false";
  if (none !== undefined && none !== "") return false;
  return stream.isTTY === true && terminal !== "dumb";
}

type Style = Parameters<typeof styleText>[0];

/** Words of statuses, states and verdicts. */
const styles: Readonly<Record<string, Style>> = {
  completed: "green",
  done: "green",
  live: "green",
  running: "cyan",
  pending: "yellow",
  paused: "yellow",
  retry: "yellow",
  lapsed: "yellow",
  silent: "yellow",
  unknown: "magenta",
  diverged: "magenta",
  parked: "magenta",
  failed: "red",
  dead: "red",
  cancelled: "gray",
};

/** The style of a cell; undefined for text that has none. */
export function styleOf(cell: string): Style | undefined {
  return Object.hasOwn(styles, cell) ? styles[cell] : undefined;
}

export const styled = (style: Style, text: string): string => styleText(style, text, { validateStream: false });
