import { defineConfig } from "vitest/config";
import { sourceOfPackage } from "./test/kit/source-of-package.js";

/** Every example, also the one that has to be installed and built first. */
export default defineConfig({
  plugins: [sourceOfPackage()],
  test: { include: ["examples/**/*.test.ts"], testTimeout: 60_000, maxWorkers: 1, reporters: ["verbose"] },
});
