import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { INSTALL_BOUND_MS, messageOf, runCommand } from "../servers/process/command.js";
import { programOnPath } from "../servers/sources/on-path.js";
import type { NodeProgram, NodeProtocol } from "./server-program.js";

const root = resolve(import.meta.dirname, "../..");

/** The folders of the two Go modules: the SDK has no dependencies, gRPC is a module of its own. */
export const goModules: Readonly<Record<NodeProtocol, string>> = { http: join(root, "sdk/go"), grpc: join(root, "sdk/go/grpcnode") };

export type GoProgram = { readonly ok: true; readonly program: NodeProgram } | { readonly ok: false; readonly reason: string };

/** Builds the conformance program. Not ok: this machine has no Go, or the modules cannot be fetched. Throws if the program does not compile. */
export async function goProgram(protocol: NodeProtocol): Promise<GoProgram> {
  const file = join(root, ".build/go", `conformance-${protocol}`);
  mkdirSync(join(file, ".."), { recursive: true });
  const built = await runGo(goModules[protocol], ["build", "-o", file, "./internal/conformance"]);
  return built.ok ? { ok: true, program: { file } } : built;
}

/** Runs the go command in a folder, and returns what it printed. */
export async function runGo(
  cwd: string,
  args: readonly string[],
): Promise<{ readonly ok: true; readonly output: string } | { readonly ok: false; readonly reason: string }> {
  let go: string;
  try {
    go = programOnPath("go");
  } catch (error) {
    return { ok: false, reason: messageOf(error) };
  }
  try {
    return { ok: true, output: await runCommand(go, args, { boundMs: INSTALL_BOUND_MS, cwd }) };
  } catch (error) {
    const reason = messageOf(error);
    // An older Go without the network cannot fetch the version that go.mod names; without the network there are no modules.
    const isMissing =
      /go\.mod requires go|invalid go version|toolchain|dial tcp|no such host|module lookup disabled|proxyconnect|i\/o timeout/.test(
        reason,
      );
    if (isMissing) return { ok: false, reason };
    throw error;
  }
}
