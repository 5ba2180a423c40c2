import { delimiter, join } from "node:path";
import { fetchGrpcio, findPython, pythonSdk } from "../servers/sources/python.js";
import type { NodeServerSuite } from "./contract.js";
import type { NodeProtocol } from "./server-program.js";

/** The program sdk/python/tests/conformance_server.py, or the reason why it cannot serve this protocol here. */
export async function pythonSuite(
  protocol: NodeProtocol,
): Promise<{ readonly ok: true; readonly suite: NodeServerSuite } | { readonly ok: false; readonly reason: string }> {
  const python = await findPython();
  if (!python.ok) return python;
  const grpcio = protocol === "grpc" ? await fetchGrpcio(python) : { ok: true as const, folder: "" };
  if (!grpcio.ok) return grpcio;
  const PYTHONPATH = [pythonSdk, grpcio.folder].filter(Boolean).join(delimiter);
  const program = {
    file: python.path,
    args: [join(pythonSdk, "tests/conformance_server.py")],
    env: { PYTHONPATH, PYTHONDONTWRITEBYTECODE: "1" },
  };
  return { ok: true, suite: { program, protocols: [protocol], dedupe: (path) => `sqlite:${path}` } };
}
