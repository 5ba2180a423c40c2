import { defineConfig } from "vitest/config";

/** Every example, also the one that has to be installed and built first. */
export default defineConfig({
  test: { include: ["examples/**/*.test.ts"], testTimeout: 60_000, maxWorkers: 1, reporters: ["verbose"] },
});
