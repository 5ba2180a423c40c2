import { nodeServerContract } from "./contract.js";
import { typescriptNodes } from "./typescript.js";

nodeServerContract("TypeScript", { program: typescriptNodes, dedupe: (path) => `sqlite:${path}` });
