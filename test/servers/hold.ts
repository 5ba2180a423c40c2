import { acquire, type ProviderName } from "./acquire.js";
import { providers } from "./registry.js";

// `node .build/test/servers/hold.js postgres`: starts a server, prints its URL, and runs it until Ctrl-C or until this process is killed.
const name = process.argv[2] ?? "";
if (!Object.hasOwn(providers, name)) throw new Error(`"${name}" is not one of ${Object.keys(providers).join(", ")}`);

const acquired = await acquire(name as ProviderName);
if (!acquired.ok) throw new Error(acquired.reason);
process.stdout.write(`${JSON.stringify(acquired.running)}\n`);

const held = setInterval(() => {}, 60_000);
process.once("SIGINT", async () => {
  clearInterval(held);
  await acquired.running.stop();
});
