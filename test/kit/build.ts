import { execFileSync } from "node:child_process";
import { bundlePrograms } from "./bundle-programs.js";

/** Before any test: programs that suites start, and packages in folders, use the build. Without changes this takes about two seconds. */
export async function setup(): Promise<void> {
  execFileSync("npm", ["run", "--silent", "build"], { stdio: "inherit" });
  await bundlePrograms();
}
