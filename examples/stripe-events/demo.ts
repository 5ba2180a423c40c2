import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deliver, eventOf, programOf, startApp, startOtherSides, stopApp } from "./deliveries.js";

/** Demonstrates one of the apps: an event is delivered twice at once, and again after the app was killed and restarted. */
const [name = "hono-stripe"] = process.argv.slice(2);
const folder = await mkdtemp(join(tmpdir(), "onceflow-demo-"));
const sides = await startOtherSides();
const env = { ...sides.env, PORT: "0", ONCEFLOW_URL: `sqlite:${join(folder, "onceflow.db")}` };
const boot = () => startApp(programOf(name), { env });
const show = (when: string, { status, answer }: Awaited<ReturnType<typeof deliver>>) =>
  console.log(`${when.padEnd(22)} ${status} ${JSON.stringify(answer)}`);

let app = await boot();
for (const one of await Promise.all([deliver(app.url, eventOf("evt_1")), deliver(app.url, eventOf("evt_1"))]))
  show("delivered at once", one);
while (sides.receipts.effects.keys().length === 0) await new Promise((go) => setTimeout(go, 20));
await stopApp(app, "SIGKILL");
app = await boot();
show("after kill and restart", await deliver(app.url, eventOf("evt_1")));
await stopApp(app);
for (const side of ["charges", "receipts"] as const) {
  const { effects } = sides[side];
  console.log(`${side.padEnd(22)} ${effects.keys().reduce((sum, key) => sum + effects.applied(key), 0)}`);
}
await sides.close();
await rm(folder, { recursive: true, force: true });
