import { join } from "node:path";
import { messageOf, runCommand, START_BOUND_MS } from "../process/command.js";
import { cachedFolder, packageRoot } from "./npm-cache.js";

/** A Python that can run the SDK, or the reason why there is none. */
export type FoundPython =
  | { readonly ok: true; readonly path: string; readonly version: string }
  | { readonly ok: false; readonly reason: string };

/** The folder of the Python SDK: the value of PYTHONPATH. */
export const pythonSdk: string = join(packageRoot(), "sdk/python");

/** Looks for python3, 3.9 or newer, on PATH. */
export async function findPython(): Promise<FoundPython> {
  const ask = "import sys; print(sys.executable); print('%d.%d' % sys.version_info[:2]); print(sys.version_info >= (3, 9))";
  try {
    const [path = "", version = "", suits] = (await runCommand("python3", ["-c", ask], { boundMs: START_BOUND_MS })).trim().split(/\r?\n/);
    return suits === "True" ? { ok: true, path, version } : { ok: false, reason: `python3 is ${version}; the SDK needs 3.9 or newer` };
  } catch (error) {
    return { ok: false, reason: `python3 cannot be started: ${messageOf(error)}` };
  }
}

/** A folder with grpcio and protobuf for this Python, fetched on first use; or the reason why it cannot be fetched. */
export async function fetchGrpcio({
  path,
  version,
}: {
  readonly path: string;
  readonly version: string;
}): Promise<{ readonly ok: true; readonly folder: string } | { readonly ok: false; readonly reason: string }> {
  const packages = ["grpcio>=1.60", "protobuf>=4.25"];
  const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"];
  try {
    const folder = await cachedFolder(`grpcio-python${version}`, `grpcio for Python ${version} from PyPI`, async (target, guard) => {
      await runCommand(path, [...pip, "--target", target, ...packages], { boundMs: 180_000, guard });
    });
    return { ok: true, folder };
  } catch (error) {
    return { ok: false, reason: `grpcio cannot be fetched: ${messageOf(error)}` };
  }
}
