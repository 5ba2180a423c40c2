import { execFileSync } from "node:child_process";

/** Before any test: programs that suites start, and packages in folders, use the build. Without changes this takes about a second. */
export function setup(): void {
  execFileSync("npm", ["run", "--silent", "build"], { stdio: "inherit" });
}
