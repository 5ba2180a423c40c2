import type { NodeProgram } from "./server-program.js";

/** The built program test/nodes/programs/node-server.ts. */
export const typescriptNodes: NodeProgram = {
  file: process.execPath,
  args: [new URL("../../.build/test/nodes/programs/node-server.js", import.meta.url).pathname],
};
