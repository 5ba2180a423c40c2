import { defineConfig } from "vitest/config";
import { fullOnly, isFull } from "./test/kit/effort.js";
import { LongestFirst } from "./test/kit/longest-first.js";
import { sourceOfPackage } from "./test/kit/source-of-package.js";

// It would say in every process that it will need a newer Node one day.
process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true";

export default defineConfig({
  plugins: [sourceOfPackage()],
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts", "examples/**/*.test.ts"],
    exclude: [
      "**/node_modules/**",
      // Next.js is installed and built for it: npm run test:examples.
      "examples/stripe-events/nextjs.test.ts",
      ...(isFull ? [] : Object.keys(fullOnly).map((file) => `test/${file}`)),
    ],
    globalSetup: ["test/kit/memory-disk.ts", "test/kit/build.ts", "test/servers/global-setup.ts"],
    // For what hangs. No test counts on a limit: on a busy machine everything takes ten times as long.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    // npm run coverage: the core, by its unit tests and by the contract on the memory store.
    coverage: {
      include: ["src/core/**/*.ts"],
      exclude: ["**/*.test.ts"],
      reporter: ["text-summary", "html"],
      thresholds: { statements: 79, branches: 78, functions: 71, lines: 81 },
    },
    reporters: process.env["CI"] ? ["verbose"] : ["default"],
  },
});
