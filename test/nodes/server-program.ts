import { type ChildProcess, spawn } from "node:child_process";

export type NodeProtocol = "http" | "grpc";

/** How to start a node server program in any language. */
export interface NodeProgram {
  readonly file: string;
  readonly args?: readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

export interface NodeServerStart {
  readonly protocol: NodeProtocol;
  /** Value of --dedupe. Default memory. */
  readonly dedupe?: string;
  readonly port?: number;
  readonly token?: string;
  readonly concurrency?: number;
  readonly tls?: { readonly cert: string; readonly key: string; readonly clientCa?: string };
}

/** A node server in a process of its own. */
export class RunningNodeServer {
  readonly url: string;
  readonly ended: Promise<number | NodeJS.Signals>;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, url: string, ended: Promise<number | NodeJS.Signals>) {
    this.#child = child;
    this.url = url;
    this.ended = ended;
  }

  /** Resolves when the program has printed its URL. `onEnd` kills the process at the end of the test or the file. */
  static async start(
    { file, args = [], cwd, env }: NodeProgram,
    { protocol, dedupe = "memory", port = 0, token, concurrency, tls }: NodeServerStart,
    onEnd: (end: () => void) => void,
  ): Promise<RunningNodeServer> {
    const given = {
      ...{ protocol, port, dedupe, token, concurrency },
      ...{ "tls-cert": tls?.cert, "tls-key": tls?.key, "tls-client-ca": tls?.clientCa },
    };
    const options = Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, String(value)]));
    const child = spawn(file, [...args, ...options], {
      stdio: ["ignore", "pipe", "pipe"],
      ...(cwd === undefined ? {} : { cwd }),
      env: { ...process.env, ...env },
    });
    onEnd(() => void child.kill("SIGKILL"));
    let [stdout, stderr] = ["", ""];
    const ended = new Promise<number | NodeJS.Signals>((resolve) => {
      child.once("error", () => resolve(-1));
      child.once("close", (code, signal) => resolve(code ?? signal ?? -1));
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr = `${stderr}${text}`.slice(-10_000);
    });
    const url = await new Promise<string>((resolve, reject) => {
      child.once("error", reject);
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        stdout += text;
        const [line = "", rest] = stdout.split("\n", 2);
        if (rest !== undefined) resolve((JSON.parse(line) as { url: string }).url);
      });
      void ended.then((how) => reject(new Error(`the node server ended (${how}) before it listened: ${stderr}`)));
    });
    return new RunningNodeServer(child, url, ended);
  }

  get port(): number {
    return Number(new URL(this.url.replace(/^grpc/, "http")).port);
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<number | NodeJS.Signals> {
    this.#child.kill(signal);
    return await this.ended;
  }

  /** Sends SIGTERM and does not wait. */
  askToStop(): void {
    this.#child.kill("SIGTERM");
  }
}
