import { styleText } from "node:util";

/** Colour only where a terminal shows it and nobody objects: `hasColors` knows NO_COLOR and FORCE_COLOR. */
export function colour(name: "red" | "green" | "bold" | "dim", text: string): string {
  return process.stdout.isTTY && process.stdout.hasColors() ? styleText(name, text) : text;
}
