import { type ChildProcess, spawn } from "node:child_process";
import type { ClientProgram } from "./languages.js";

/** A call of `once` that the client program makes. `does`: what its handler does beside its effect. */
export interface ClientCall {
  readonly key: string;
  readonly scope?: string;
  readonly input?: unknown;
  readonly fingerprint?: string;
  readonly effect?: "idempotent" | "keyed" | "reconcile" | "atMostOnce";
  readonly leaseMs?: number;
  readonly waitMs?: number;
  readonly keepFailures?: boolean;
  readonly does?: "effect" | "fail" | "notApplied" | "panic" | "waitLost" | "check" | "notJson" | "long";
  readonly result?: unknown;
}

export interface ClientPlan {
  readonly url: string;
  readonly token?: string;
  readonly requestMs?: number;
  /** The certificate authority that the client trusts. */
  readonly caFile?: string;
  /** How long a call waits for its outcome to be saved. */
  readonly saveMs?: number;
  readonly provider: string;
  readonly calls: readonly ClientCall[];
  /** All calls at the same time, each in a thread or goroutine. */
  readonly parallel?: boolean;
}

/** A line that the client program prints: the result of a call, its error, or whether the lease was lost while the handler ran. */
export interface ClientLine {
  readonly status?: "executed" | "replayed";
  readonly value?: unknown;
  readonly attempt?: number | null;
  readonly error?: string;
  readonly message?: string;
  readonly retryable?: boolean;
  readonly failureCode?: unknown;
  readonly lost?: boolean;
}

/** A process of a client program, which executes the plans one after the other. */
export class ClientProcess {
  readonly child: ChildProcess;
  /** Resolves with its lines when the process has ended. Rejects if it printed something else, or ended with an error. */
  readonly lines: Promise<readonly ClientLine[]>;
  stderr = "";

  constructor(program: Extract<ClientProgram, { ok: true }>, plans: readonly ClientPlan[], onEnd: (end: () => void) => void) {
    this.child = spawn(program.file, [...program.args, JSON.stringify(plans)], {
      env: { ...process.env, ...program.env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    onEnd(() => void this.child.kill("SIGKILL"));
    let stdout = "";
    this.child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    this.child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
    });
    this.lines = new Promise((resolve, reject) => {
      this.child.once("error", reject);
      this.child.once("close", (code, signal) => {
        if (code !== 0 && signal !== "SIGKILL") return reject(new Error(`the client ended with ${code ?? signal}: ${this.stderr}`));
        const texts = stdout.split("\n").filter((line) => line !== "");
        resolve(texts.map((text) => JSON.parse(text) as ClientLine));
      });
    });
    // A test that has failed for another reason does not wait for the lines.
    this.lines.catch(() => {});
  }

  /** Resolves when the process is gone. */
  async kill(): Promise<void> {
    this.child.kill("SIGKILL");
    await this.lines;
  }
}
