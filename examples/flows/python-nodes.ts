import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

const sdk = resolve(import.meta.dirname, "../../sdk/python");
const startMsMax = 30_000;
const restartMs = 500;

/** The node server in Python, or why it does not run. */
export type PythonNodes =
  | { readonly ok: true; readonly url: string; stop(): Promise<void> }
  | { readonly ok: false; readonly reason: string };

/**
 * Starts python/shipping.py on a free port of loopback, and starts it again if it ends. `dedupe` says where it keeps its answers.
 * It ends with this process, however that ends: its standard input is a pipe that closes then.
 */
export async function startPythonNodes(dedupe: string): Promise<PythonNodes> {
  const without = missing();
  if (without !== undefined) return { ok: false, reason: without };
  let child = launch(dedupe, 0);
  const url = await urlOf(child);
  if (url === undefined) return { ok: false, reason: "the Python node server did not start" };
  const port = Number(new URL(url).port);
  let stopping = false;

  async function supervise(): Promise<void> {
    while (!stopping) {
      await ended(child);
      if (stopping) return;
      console.error("The Python node server ended; it is started again. Packets wait for their next attempt meanwhile.");
      await pause(restartMs);
      if (stopping) return;
      // The same port: the runtime knows no other.
      child = launch(dedupe, port);
    }
  }
  const supervised = supervise();

  return {
    ok: true,
    url,
    async stop() {
      stopping = true;
      child.stdin?.end();
      await ended(child);
      await supervised;
    },
  };
}

/** Why the node cannot run in Python on this machine; undefined if it can. */
function missing(): string | undefined {
  if (!existsSync(sdk)) return "sdk/python is not there";
  const { error, status } = spawnSync("python3", ["-c", "import sys; sys.exit(sys.version_info < (3, 9))"], { stdio: "ignore" });
  if (error !== undefined) return "python3 was not found";
  return status === 0 ? undefined : "python3 is older than 3.9";
}

function launch(dedupe: string, port: number): ChildProcess {
  const serve = ["-m", "flowdsl", "serve", "shipping:nodes", "--port", String(port), "--dedupe", dedupe, "--until-stdin-closes"];
  const child = spawn("python3", serve, {
    cwd: join(import.meta.dirname, "python"),
    env: { ...process.env, PYTHONPATH: sdk, PYTHONDONTWRITEBYTECODE: "1" },
    stdio: ["pipe", "pipe", "inherit"],
    // A process group of its own: Ctrl-C reaches this process alone, which finishes its deliveries before it stops the node server.
    detached: true,
    windowsHide: true,
  });
  child.on("error", (error) => console.error(`python3 cannot be started: ${error.message}`));
  // Nothing reads the rest of its output; a full pipe would stop it.
  child.stdout?.resume();
  child.stdin?.on("error", () => {});
  return child;
}

/** The URL that the server prints. Undefined: it ended before, or said nothing for too long. */
async function urlOf(child: ChildProcess): Promise<string | undefined> {
  const tooLong = setTimeout(() => child.kill("SIGKILL"), startMsMax);
  let printed = "";
  const url = new Promise<string>((found) => {
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      printed += text;
      const match = /^nodes at (\S+)\n/m.exec(printed)?.[1];
      if (match !== undefined) found(match);
    });
  });
  const first = await Promise.race([url, ended(child).then(() => undefined)]);
  clearTimeout(tooLong);
  // Without a listener the stream would pause.
  child.stdout?.removeAllListeners("data").resume();
  return first;
}

async function ended(child: ChildProcess): Promise<void> {
  // Without a pid it was never started.
  if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) await once(child, "exit");
}
