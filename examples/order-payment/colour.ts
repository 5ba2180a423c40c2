import { styleText } from "node:util";

/** Uses colours only if the terminal supports them; `hasColors` respects NO_COLOR and FORCE_COLOR. */
export function colour(name: "red" | "green" | "bold" | "dim", text: string): string {
  return process.stdout.isTTY && process.stdout.hasColors() ? styleText(name, text) : text;
}
