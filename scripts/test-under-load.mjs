// Runs tests while other processes keep the machine busy: `npm run test:load [-- <files>]`. A test that depends on timing instead
// of a condition fails here. ONCEFLOW_LOAD is the number of busy processes (default: 15).
import { spawn } from "node:child_process";
import { once } from "node:events";

const count = Number(process.env.ONCEFLOW_LOAD ?? 15);
/** A busy process ends by itself after this time, even if this process was killed. */
const busyMsMax = 3_600_000;
const areas = ["test/workflow", "test/graph", "test/flow", "test/inbox", "test/outbox", "test/http", "test/ledger", "test/stores", "src"];

const burn = `const end = Date.now() + ${busyMsMax}; while (Date.now() < end && process.ppid === ${process.pid});`;
const busy = Array.from({ length: count }, () => spawn(process.execPath, ["-e", burn], { stdio: "ignore" }));
const files = process.argv.slice(2);
const tests = spawn("vitest", ["run", ...(files.length > 0 ? files : areas)], { stdio: "inherit" });
const [code] = await once(tests, "exit");
for (const one of busy) one.kill("SIGKILL");
process.exitCode = code ?? 1;
