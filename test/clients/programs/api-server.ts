import { open } from "onceflow";
import { serveApi } from "./serve-api.js";

/** The API of a store in a process of its own, which is killed: `api-server.js <store url> <token> <port>`. It sends its port when it listens. */
const [url = "", token = "", port = "0"] = process.argv.slice(2);
const { port: chosen } = await serveApi(await open(url, { stallMsMax: 0 }), { token, port: Number(port) });
process.send?.(chosen);
