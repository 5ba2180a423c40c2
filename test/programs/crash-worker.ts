import { key, once, open } from "onceflow";
import { type CrashPoint, withCrashPoint } from "onceflow/testing";

/** Runs one operation and dies, by SIGKILL, at the point it was told. */
const [url = "", providerUrl = "", point = "before begin", effect = "keyed", tx = ""] = process.argv.slice(2);

const die = () => process.kill(process.pid, "SIGKILL");
const store = withCrashPoint(await open(url), point as CrashPoint, die);
const options = {
  key: key.of("crash"),
  effect: effect as "keyed" | "atMostOnce",
  leaseMs: 300,
  ...(tx === "tx" ? { tx: true as const } : {}),
};
await once(store, options, async (attempt) => {
  if (attempt.tx) await insertRow(attempt.tx, attempt.number);
  else await fetch(providerUrl, { method: "POST", headers: { "idempotency-key": attempt.effectKey, "x-attempt": String(attempt.number) } });
  return { attempt: attempt.number };
});
throw new Error("should have died");

async function insertRow(handle: object, attempt: number): Promise<void> {
  if ("prepare" in handle)
    (handle as { prepare(sql: string): { run(n: number): void } }).prepare("INSERT INTO business VALUES (?)").run(attempt);
  else await (handle as { query(sql: string, values: number[]): Promise<void> }).query("INSERT INTO business VALUES ($1)", [attempt]);
}
