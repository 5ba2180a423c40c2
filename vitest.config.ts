import { defineConfig } from "vitest/config";
import { fullOnly, isFull } from "./test/kit/effort.js";
import { LongestFirst } from "./test/kit/longest-first.js";
import { sourceOfPackage } from "./test/kit/source-of-package.js";

// It would say in every process that it will need a newer Node one day.
process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true";

// Test files share the modules of their worker, which saves a quarter of the processor time. These files change what modules
// share (mocked modules, the store of the process, options of registered steps, warnings that come once), so each has a worker of its own.
const isolated = [
  "test/flow/{flow,hooks,store}.test.ts",
  "test/kit/effort.test.ts",
  "test/servers/process/free-port.test.ts",
  "test/stores/postgres/endless-errors.test.ts",
  "test/transform/next.test.ts",
  "test/workflow/compat/start.test.ts",
  "test/workflow/runner/time.test.ts",
  "test/workflow/runs/options.test.ts",
  "src/stores/mongodb/errors.test.ts",
  "src/stores/redis/connection/connection.test.ts",
];

const excluded = [
  "**/node_modules/**",
  // Next.js is installed and built for it: npm run test:examples.
  "examples/stripe-events/nextjs.test.ts",
  ...(isFull ? [] : Object.keys(fullOnly).map((file) => `test/${file}`)),
];

const common = {
  plugins: [sourceOfPackage()],
  test: {
    // For what hangs. No test counts on a limit: on a busy machine everything takes ten times as long.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    setupFiles: ["test/kit/retries-at-once.ts"],
  },
};

export default defineConfig({
  test: {
    projects: [
      {
        ...common,
        test: {
          ...common.test,
          name: "shared",
          isolate: false,
          include: ["src/**/*.test.ts", "test/**/*.test.ts", "examples/**/*.test.ts"],
          exclude: [...excluded, ...isolated],
        },
      },
      { ...common, test: { ...common.test, name: "isolated", include: isolated, exclude: excluded } },
    ],
    // Once for all projects: a project that extended this configuration would start every server again.
    globalSetup: ["test/kit/memory-disk.ts", "test/kit/build.ts", "test/servers/global-setup.ts"],
    maxWorkers: 4,
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
