import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { type EffectServer, serveEffects } from "onceflow/testing";
import type { StripeEvent } from "./process-stripe-event.js";
import { signed } from "./signature.js";

/** Shared by the tests of these apps: services that count their calls, and a Stripe that delivers more than once. */
export interface OtherSides {
  readonly charges: EffectServer;
  readonly receipts: EffectServer;
  readonly env: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

const secret = "whsec_test";

export async function startOtherSides(): Promise<OtherSides> {
  const [charges, receipts] = [await serveEffects({ honoursKeys: true }), await serveEffects({ honoursKeys: true })];
  const env = { PAYMENTS_URL: charges.url, RECEIPTS_URL: receipts.url, STRIPE_WEBHOOK_SECRET: secret, STRIPE_SECRET_KEY: "sk_test" };
  const close = async () => void (await Promise.all([charges.close(), receipts.close()]));
  return { charges, receipts, env, close };
}

export interface App {
  readonly url: string;
  readonly child: ChildProcess;
}

/** The arguments to run one of the apps with Node from the root of the repository. */
export function programOf(example: string): string[] {
  return ["--import", "onceflow/register", `examples/${example}/main.ts`];
}

export interface AppOptions {
  readonly cwd?: string;
  readonly env: Readonly<Record<string, string>>;
}

/** Runs Node and waits until the app prints its address. */
export async function startApp(args: readonly string[], { cwd, env }: AppOptions): Promise<App> {
  const options = { ...(cwd === undefined ? {} : { cwd }), env: { ...process.env, ...env } };
  const child = spawn(process.execPath, args, { ...options, stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface(child.stdout)) {
    const [url] = /http:\/\/(?:127\.0\.0\.1|localhost):[1-9]\d*/.exec(line) ?? [];
    if (url === undefined) continue;
    child.stdout.resume();
    return { url, child };
  }
  throw new Error("the app ended before it listened");
}

/** Stops the app: gracefully, or by SIGKILL. */
export async function stopApp({ child }: App, signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill(signal);
  await exit;
}

export function eventOf(id: string): StripeEvent {
  return { id, type: "invoice.payment_due", data: { object: { customer: "cus_1", amount: 4200 } } };
}

export interface Delivered {
  readonly status: number;
  readonly answer: { readonly runId?: string; readonly error?: string };
}

export async function deliver(url: string, event: StripeEvent, by: { secret?: string; at?: Date } = {}): Promise<Delivered> {
  const body = JSON.stringify(event);
  const headers = { "content-type": "application/json", "stripe-signature": signed(body, by.secret ?? secret, by.at) };
  const response = await fetch(`${url}/api/webhooks/stripe`, { method: "POST", headers, body });
  return { status: response.status, answer: (await response.json()) as Delivered["answer"] };
}
