import { describe } from "vitest";
import { isFull } from "../kit/effort.js";
import { nodeServerContract } from "./contract.js";
import { remoteFlowCases } from "./end-to-end.js";
import { pythonSuite } from "./python.js";

for (const protocol of ["http", "grpc"] as const) {
  const found = await pythonSuite(protocol);
  if (found.ok) {
    nodeServerContract("Python", found.suite);
    // The server behind both protocols is the same: the quick tier runs the flows over one.
    if (isFull || protocol === "http") remoteFlowCases("Python", found.suite);
  } else describe.skip(`node server in Python over ${protocol}: ${found.reason}`, () => {});
}
