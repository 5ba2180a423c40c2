import { join } from "node:path";
import { parseArgs } from "node:util";
import { Engine } from "./engine.js";
import { loadLanguage } from "./language.js";
import { serve } from "./serve.js";

// A server that speaks MongoDB's protocol, for the tests (see test/servers/mongodb/mongodb.ts). It is not MongoDB.
const { values } = parseArgs({
  options: {
    port: { type: "string" },
    /** The folder of its log. */
    folder: { type: "string" },
    /** The folder of the npm package mingo. */
    mingo: { type: "string" },
    standalone: { type: "boolean", default: false },
    version: { type: "string", default: "7.0.0" },
  },
});
const { port, folder, mingo, standalone, version } = values;
if (port === undefined || folder === undefined || mingo === undefined) throw new Error("--port, --folder and --mingo are required");

const engine = new Engine(join(folder, "emulator.log.bson"));
await serve({ engine, language: await loadLanguage(mingo), port: Number(port), replicaSet: !standalone, version });
process.stdout.write("listening\n");
