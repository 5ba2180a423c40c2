import { isFull } from "../kit/effort.js";
import { remoteFlowCases } from "./end-to-end.js";
import { typescriptNodes } from "./typescript.js";

// The server behind both protocols is the same: the quick tier runs the flows over one.
const protocols = isFull ? (["http", "grpc"] as const) : (["grpc"] as const);
remoteFlowCases("TypeScript", { program: typescriptNodes, dedupe: (path) => `sqlite:${path}`, protocols });
